//! A parsed policy, and its use in a run.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use skill_format::Diagnostic;
use skill_rules::{CheckOptions, CheckScope, Finding, Profile, RuleLevel, RuleSet};

use crate::path_patterns::PathPatterns;
use crate::selection::RuleSelection;

/// The policy of a repository.
#[derive(Debug, Default)]
pub struct LintPolicy {
    /// The file, as messages name it.
    pub(crate) path: PathBuf,
    /// The directory of the file, without links.
    pub(crate) directory: PathBuf,
    pub(crate) text: String,
    pub(crate) profile: Option<Profile>,
    pub(crate) allowed_fields: Vec<String>,
    pub(crate) levels: Vec<(&'static str, RuleLevel)>,
    pub(crate) include: Option<PathPatterns>,
    pub(crate) exclude: Option<PathPatterns>,
    pub(crate) ignores: Vec<IgnoreEntry>,
}

/// An entry of findings to ignore.
#[derive(Debug)]
pub(crate) struct IgnoreEntry {
    pub(crate) rules: Vec<&'static str>,
    /// The skills that it is about; `None` for all.
    pub(crate) paths: Option<PathPatterns>,
    pub(crate) reason: String,
    /// The position in the file, counted from 1.
    pub(crate) line: u32,
    pub(crate) column: u32,
    /// Whether a finding of the run matched.
    pub(crate) used: Cell<bool>,
}

/// A finding that is not reported as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuppressedFinding {
    /// The diagnostic.
    pub diagnostic: Diagnostic,
    /// The place that suppresses it.
    pub origin: SuppressionOrigin,
}

/// The place that suppresses a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SuppressionOrigin {
    /// A comment in the skill.
    Comment,
    /// An entry of the policy.
    Policy {
        /// The reason of the entry.
        reason: String,
    },
}

/// A linted path and its policy.
#[derive(Clone, Debug, Default)]
pub struct PolicyScope {
    policy: Option<Rc<LintPolicy>>,
    /// The directory of the path, as it was given.
    given: PathBuf,
    /// The same directory relative to that of the policy, with `/` between components.
    relative: String,
}

impl LintPolicy {
    /// Returns the file, as messages name it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the text of the file.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the profile that the policy sets.
    #[must_use]
    pub fn profile(&self) -> Option<Profile> {
        self.profile
    }
}

impl PolicyScope {
    /// Creates the scope of a directory, whose path without links is `resolved`.
    pub(crate) fn new(policy: Option<Rc<LintPolicy>>, given: &Path, resolved: &Path) -> Self {
        let below = policy.as_ref().and_then(|it| resolved.strip_prefix(&it.directory).ok());
        let relative = below.map(to_slashes).unwrap_or_default();
        Self { policy, given: given.to_owned(), relative }
    }

    /// Returns the policy, if there is one.
    #[must_use]
    pub fn policy(&self) -> Option<&Rc<LintPolicy>> {
        self.policy.as_ref()
    }

    /// Returns the path of a file below the linted path, relative to the policy.
    fn relative_path(&self, dir: &Path, file_name: &str) -> String {
        let below = dir.strip_prefix(&self.given).unwrap_or(dir);
        let parts = [self.relative.as_str(), &to_slashes(below), file_name];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
    }

    /// Returns `true` if the policy includes the skill of a directory.
    #[must_use]
    pub fn includes(&self, dir: &Path, file_name: &str) -> bool {
        let Some(policy) = &self.policy else { return true };
        if policy.include.is_none() && policy.exclude.is_none() {
            return true;
        }
        let path = self.relative_path(dir, file_name);
        policy.include.as_ref().is_none_or(|patterns| patterns.select(&path))
            && !policy.exclude.as_ref().is_some_and(|patterns| patterns.select(&path))
    }

    /// Returns the rules of a check. A profile or a selection of the command line goes before the
    /// policy; in [`CheckScope::Validate`] only the profile and the fields of the policy count.
    #[must_use]
    pub fn rule_set(
        &self,
        scope: CheckScope,
        profile: Option<Profile>,
        selection: &RuleSelection,
    ) -> RuleSet {
        let policy = self.policy.as_deref();
        let profile = profile.or(policy.and_then(LintPolicy::profile)).unwrap_or_default();
        let mut rules = RuleSet::new(CheckOptions { profile, scope });
        if let Some(policy) = policy {
            rules.allow_fields(policy.allowed_fields.iter().cloned());
            if scope == CheckScope::Lint {
                policy.levels.iter().for_each(|(rule, level)| rules.set_level(rule, *level));
            }
        }
        if let Some(selected) = &selection.select {
            rules.select_only(selected);
        }
        selection.ignore.iter().for_each(|rule| rules.set_level(rule, RuleLevel::Off));
        rules
    }

    /// Returns the rules whose findings in a skill are fixed: those that the policy does not ignore
    /// there.
    #[must_use]
    pub fn rules_to_fix(&self, rules: &RuleSet, dir: &Path, file_name: &str) -> RuleSet {
        let mut fixed = rules.clone();
        let Some(policy) = &self.policy else { return fixed };
        let path = self.relative_path(dir, file_name);
        for entry in &policy.ignores {
            if entry.paths.as_ref().is_none_or(|patterns| patterns.select(&path)) {
                entry.rules.iter().for_each(|rule| fixed.set_level(rule, RuleLevel::Off));
            }
        }
        fixed
    }

    /// Removes the findings of a skill that the policy ignores and returns them.
    pub fn split_findings(
        &self,
        dir: &Path,
        file_name: &str,
        findings: &mut Vec<Finding>,
    ) -> Vec<SuppressedFinding> {
        let Some(policy) = self.policy.as_ref().filter(|policy| !policy.ignores.is_empty()) else {
            return Vec::new();
        };
        let is_named = |found: &Finding| {
            policy.ignores.iter().any(|it| it.rules.contains(&found.diagnostic.rule))
        };
        // Most skills have no finding of an ignored rule, and need no path.
        if !findings.iter().any(is_named) {
            return Vec::new();
        }
        let path = self.relative_path(dir, file_name);
        let mut suppressed = Vec::new();
        findings.retain(|found| {
            let mut reason = None;
            // Every entry is visited, so that two for the same finding both count as used.
            for entry in &policy.ignores {
                let is_here = entry.paths.as_ref().is_none_or(|patterns| patterns.select(&path));
                if is_here && entry.rules.contains(&found.diagnostic.rule) {
                    entry.used.set(true);
                    reason.get_or_insert(&entry.reason);
                }
            }
            let Some(reason) = reason else { return true };
            let origin = SuppressionOrigin::Policy { reason: reason.clone() };
            suppressed.push(SuppressedFinding { diagnostic: found.diagnostic.clone(), origin });
            false
        });
        suppressed
    }
}

/// Returns the entries that ignored nothing in a run, for each policy of its scopes.
///
/// An entry counts only if the run covered everything that it is about: its paths, or all included
/// paths if it has none.
#[must_use]
pub fn unused_ignores(scopes: &[PolicyScope]) -> Vec<(Rc<LintPolicy>, Vec<Finding>)> {
    let mut policies: Vec<(Rc<LintPolicy>, Vec<String>)> = Vec::new();
    for scope in scopes {
        let Some(policy) = &scope.policy else { continue };
        match policies.iter_mut().find(|(known, _)| Rc::ptr_eq(known, policy)) {
            Some((_, directories)) => directories.push(scope.relative.clone()),
            None => policies.push((Rc::clone(policy), vec![scope.relative.clone()])),
        }
    }
    let unused = policies.into_iter().map(|(policy, directories)| {
        let is_covered = |entry: &&IgnoreEntry| {
            let paths = entry.paths.as_ref().or(policy.include.as_ref());
            paths.map_or_else(
                || directories.iter().any(String::is_empty),
                |patterns| patterns.lie_below(&directories),
            )
        };
        let unused = policy.ignores.iter().filter(|entry| !entry.used.get()).filter(is_covered);
        let findings: Vec<_> = unused.map(unused_finding).collect();
        (policy, findings)
    });
    unused.filter(|(_, findings)| !findings.is_empty()).collect()
}

fn unused_finding(entry: &IgnoreEntry) -> Finding {
    let message = format!("no finding of `{}` is ignored by this entry", entry.rules.join("`, `"));
    let diagnostic = Diagnostic::warning("suppression-unused", message)
        .with_position(entry.line, entry.column)
        .with_help("remove it, or correct its paths");
    Finding { diagnostic, edits: Vec::new() }
}

/// Returns a relative path with `/` between its components; bytes that are not UTF-8 are replaced.
fn to_slashes(path: &Path) -> String {
    let parts = path.components().filter_map(|part| match part {
        std::path::Component::Normal(name) => Some(name.to_string_lossy()),
        _ => None,
    });
    parts.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests;
