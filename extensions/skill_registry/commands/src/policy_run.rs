//! The policies of the paths of a run.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;

use skill_catalog::FoundSkill;
use skill_policy::{
    PolicyFileError, PolicyFinder, PolicyScope, RuleSelection, UnknownRuleError, unused_ignores,
};
use skill_rules::{CheckScope, Finding, Profile, RuleSet};
use skillhost_terminal::{CliContext, CliError, display_safe, exit};

use super::batch::BatchFilter;
use crate::arguments::{PolicyArgs, PolicyFileArgs};

/// The rules for the skills of one path of the command line.
pub(super) struct ScopedRules {
    pub(super) scope: PolicyScope,
    pub(super) rules: RuleSet,
}

/// The policies of a run: each file is read once, for the first path that it applies to.
pub(super) struct PolicyRun {
    finder: RefCell<PolicyFinder>,
    profile: Option<Profile>,
    selection: RuleSelection,
    check_scope: CheckScope,
    /// The scopes of the paths so far, the current one last.
    scopes: RefCell<Vec<Rc<ScopedRules>>>,
    excluded: Cell<usize>,
    /// Whether rules are run, which may need the files of a skill.
    is_check: bool,
}

impl PolicyRun {
    /// Creates the policies of a check.
    ///
    /// # Errors
    /// The file that the command line names cannot be read or is not valid.
    pub(super) fn new(
        session: &CliContext,
        args: &PolicyArgs,
        check_scope: CheckScope,
        selection: RuleSelection,
    ) -> Result<Self, CliError> {
        let finder = RefCell::new(create_finder(session, &args.file)?);
        let profile = args.profile.map(Profile::from);
        let (scopes, excluded) = (RefCell::default(), Cell::new(0));
        Ok(Self { finder, profile, selection, check_scope, scopes, excluded, is_check: true })
    }

    /// Creates the policies of a command that only takes their paths.
    ///
    /// # Errors
    /// As [`PolicyRun::new`].
    pub(super) fn for_paths(session: &CliContext, args: &PolicyFileArgs) -> Result<Self, CliError> {
        let finder = RefCell::new(create_finder(session, args)?);
        Ok(Self {
            finder,
            profile: None,
            selection: RuleSelection::default(),
            check_scope: CheckScope::Validate,
            scopes: RefCell::default(),
            excluded: Cell::new(0),
            is_check: false,
        })
    }

    /// Returns the profile of a path, for choices that precede the run.
    ///
    /// # Errors
    /// The policy of the path cannot be read or is not valid.
    pub(super) fn profile_of(&self, path: &Path) -> Result<Profile, CliError> {
        if let Some(profile) = self.profile {
            return Ok(profile);
        }
        let scope = self.finder.borrow_mut().find(path).map_err(policy_error)?;
        Ok(scope.policy().and_then(|policy| policy.profile()).unwrap_or_default())
    }

    /// Returns the rules for the current path.
    pub(super) fn current(&self) -> Rc<ScopedRules> {
        let scopes = self.scopes.borrow();
        // Every batch enters a path before its first skill.
        scopes.last().map_or_else(
            || {
                let scope = PolicyScope::default();
                let rules = scope.rule_set(self.check_scope, self.profile, &self.selection);
                Rc::new(ScopedRules { scope, rules })
            },
            Rc::clone,
        )
    }

    /// Returns the texts of the policies of the paths so far.
    pub(super) fn texts(&self) -> Vec<String> {
        let scopes = self.scopes.borrow();
        let policies = scopes.iter().filter_map(|it| it.scope.policy());
        policies.map(|policy| policy.text().to_owned()).collect()
    }

    /// Returns the number of skills that policies excluded.
    pub(super) fn excluded(&self) -> usize {
        self.excluded.get()
    }

    /// Returns the policies with entries that ignored nothing, with a finding for each. Without all
    /// rules an entry cannot be judged.
    pub(super) fn unused_ignores(&self) -> Vec<(Rc<skill_policy::LintPolicy>, Vec<Finding>)> {
        if !self.selection.is_everything() {
            return Vec::new();
        }
        let scopes: Vec<_> = self.scopes.borrow().iter().map(|it| it.scope.clone()).collect();
        unused_ignores(&scopes)
    }
}

impl BatchFilter for PolicyRun {
    fn enter(&self, path: &Path) -> Result<(), CliError> {
        let scope = self.finder.borrow_mut().find(path).map_err(policy_error)?;
        let rules = scope.rule_set(self.check_scope, self.profile, &self.selection);
        self.scopes.borrow_mut().push(Rc::new(ScopedRules { scope, rules }));
        Ok(())
    }

    fn choose(&self, skill: &FoundSkill) -> Option<bool> {
        let current = self.current();
        if current.scope.includes(&skill.dir, &skill.file_name) {
            return Some(self.is_check && current.rules.needs_files());
        }
        self.excluded.set(self.excluded.get() + 1);
        None
    }
}

fn create_finder(session: &CliContext, args: &PolicyFileArgs) -> Result<PolicyFinder, CliError> {
    match &args.policy {
        Some(file) => PolicyFinder::with_file(file).map_err(policy_error),
        None if args.no_policy => Ok(PolicyFinder::disabled()),
        None => Ok(PolicyFinder::new(&session.environment.current_dir)),
    }
}

/// Converts the error of a policy; further errors of its file are hints.
pub(super) fn policy_error(error: PolicyFileError) -> CliError {
    match error {
        PolicyFileError::Unreadable { path, error } => CliError::io(&path, &error),
        PolicyFileError::Ambiguous { .. } => CliError::usage(display_safe(&error.to_string()))
            .with_hint("move the keys of one to the other"),
        PolicyFileError::Invalid { path, errors } => {
            let path = display_safe(&path.display().to_string());
            let mut texts = errors.into_iter().map(|error| {
                let text = display_safe(&format!("{path}:{error}"));
                (text, error.help.map(|help| display_safe(&help)))
            });
            let (message, help) = texts.next().unwrap_or((path.clone(), None));
            let first = CliError::usage(message);
            let first = help.into_iter().fold(first, CliError::with_hint);
            texts.fold(first, |failed, (text, help)| {
                failed.with_hint(help.map_or(text.clone(), |help| format!("{text}; {help}")))
            })
        }
    }
}

/// Converts the error of a selection of rules.
pub(super) fn selection_error(error: &UnknownRuleError) -> CliError {
    let failed = CliError::new(exit::NOT_FOUND, display_safe(&error.to_string()));
    match error.similar.as_slice() {
        [] => failed.with_hint("`skillhost skill rules` lists them"),
        similar => failed.with_hint(format!("similar rules: {}", similar.join(", "))),
    }
}
