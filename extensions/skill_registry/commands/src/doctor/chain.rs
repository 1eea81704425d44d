//! The stages of each skill: discovered, parsed, valid, visible, in L1 (the catalog of a prompt).

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

use serde::Serialize;
use skill_catalog::{
    Audience, FoundItem, FoundSkill, ResourceContent, ScanProblem, SharedCatalog, Skill,
    SkillState, Snapshot, TrustLevel, find_skills,
};
use skill_compat::extended::{ExtendedSpec, ParsedExtendedSpec};
use skill_compat::{Eligibility, MissingRequirement, check_eligibility, unchecked_tools};
use skill_format::{Diagnostic, Frontmatter, SKILL_YAML, SKILL_YAML_LIMIT, Severity, SkillInput};
use skill_rules::{CheckOptions, CheckScope, Profile};
use skill_service::explain_unlisted;

/// The findings that keep a skill's directory from being a skill; other findings of a scan are
/// remarks.
const NOT_DISCOVERED: [&str; 3] = ["id.invalid", "link.outside", "root.skillFile"];

/// The stages of a skill, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PromptStage {
    /// The scan recognized the directory as a skill.
    Discovered,
    /// Its SKILL.md was parsed.
    Parsed,
    /// It conforms to the profile. A skill that does not is loaded all the same.
    Valid,
    /// Models are offered the skill under its own id.
    Visible,
    /// It has a line in the catalog.
    InL1,
}

/// One directory and the stages it reaches.
#[derive(Debug, Serialize)]
pub(super) struct StageRow {
    /// The directory's name.
    pub(super) skill_id: String,
    /// The label of its root.
    pub(super) root: Option<String>,
    /// The path that the reason refers to: SKILL.md, or the directory.
    pub(super) path: String,
    pub(super) discovered: bool,
    pub(super) parsed: bool,
    /// `None` if the check could not run.
    pub(super) valid: Option<bool>,
    pub(super) visible: bool,
    pub(super) in_l1: bool,
    /// Whether its line holds only the id because the budget left no room for its description.
    pub(super) id_only: bool,
    /// The first stage that it does not reach.
    pub(super) stopped_at: Option<PromptStage>,
    /// Whether the stop is a defect; a skill for users only and a copy are not.
    pub(super) defect: bool,
    pub(super) reason: Option<Diagnostic>,
    /// The SKILL.md of the identical skill that is used instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) copy_of: Option<String>,
    pub(super) trust: Option<TrustLevel>,
    /// Whether its requirements are met, as far as known without an agent.
    pub(super) eligible: Option<bool>,
    pub(super) missing: Vec<MissingRequirement>,
    /// Required tools that were not checked, because the available tools depend on the agent.
    pub(super) unchecked_tools: Vec<String>,
    /// The reason for its absence from `skills/list` of MCP clients, which reach it through tools
    /// and resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unlisted: Option<String>,
    pub(super) notes: Vec<String>,
}

/// A finding of a scan about an entry that is not a skill.
#[derive(Debug, Serialize)]
pub(super) struct ScanRemark {
    pub(super) path: String,
    #[serde(flatten)]
    pub(super) diagnostic: Diagnostic,
}

/// Computes the stages of every skill. The rows are sorted by id, then by path.
pub(super) fn check_stages(
    snapshot: &Snapshot,
    catalog: Option<&SharedCatalog>,
    profile: Profile,
) -> (Vec<StageRow>, Vec<ScanRemark>) {
    let picks = catalog.is_none();
    let examiner = StageChecker { snapshot, profile, picks, lines: lines(snapshot, catalog) };
    let (mut rows, mut remarks) = examiner.rows_for_skipped();
    remarks.extend(snapshot.unmatched_settings().iter().map(|unmatched| {
        ScanRemark {
            path: "skillhost.yaml".to_owned(),
            diagnostic: Diagnostic::warning("settings.skills", unmatched.to_string())
                .with_help("correct extensions.skill_registry.skills"),
        }
    }));
    rows.extend(snapshot.skills().iter().map(|skill| examiner.row_for_primary(skill)));
    for shadowed in snapshot.shadowed() {
        let reachable = format!("; this one is reachable as `{}`", shadowed.name);
        rows.push(examiner.row_for_shadowed(&shadowed.skill, "id.duplicate", true, &reachable));
    }
    for copy in snapshot.identical_copies() {
        let mut row =
            examiner.row_for_shadowed(copy, "id.copy", false, "; both are the same in every file");
        let used = snapshot.get(copy.id().as_str());
        row.copy_of = used.map(|used| used.location().display().to_string());
        rows.push(row);
    }
    rows.sort_by(|a, b| (&a.skill_id, &a.path).cmp(&(&b.skill_id, &b.path)));
    (rows, remarks)
}

/// Returns the lines of the catalog by id.
fn lines<'a>(
    snapshot: &'a Snapshot,
    catalog: Option<&'a SharedCatalog>,
) -> HashMap<&'a str, &'a str> {
    let Some(SharedCatalog { text, report }) = catalog else { return HashMap::new() };
    // The catalog has one line per skill, in the order of ids, after its header.
    let ids = snapshot.visible(Audience::Model).map(|skill| skill.id().as_str());
    ids.zip(text.lines().filter(|line| line.starts_with('•'))).take(report.listed).collect()
}

struct StageChecker<'a> {
    snapshot: &'a Snapshot,
    profile: Profile,
    /// Whether the catalog lists only a selection that depends on the prompt.
    picks: bool,
    lines: HashMap<&'a str, &'a str>,
}

impl StageChecker<'_> {
    /// Converts rejected directories to rows, and all other findings of the scan to remarks.
    fn rows_for_skipped(&self) -> (Vec<StageRow>, Vec<ScanRemark>) {
        let (mut rows, mut remarks): (Vec<StageRow>, Vec<ScanRemark>) = (Vec::new(), Vec::new());
        // Of several findings about one file, the first error decides.
        let mut taken: HashMap<&Path, usize> = HashMap::new();
        for problem in self.snapshot.problems().iter().filter(|problem| problem.skipped) {
            let found = &problem.diagnostic;
            let path = problem.path.display().to_string();
            if problem.skill.is_none() && !NOT_DISCOVERED.contains(&found.rule) {
                remarks.push(ScanRemark { path, diagnostic: found.clone() });
                continue;
            }
            if let Some(&at) = taken.get(&*problem.path) {
                let reason = &mut rows[at].reason;
                if reason.as_ref().is_some_and(|reason| reason.severity < Severity::Error)
                    && found.severity == Severity::Error
                {
                    *reason = Some(found.clone());
                }
                continue;
            }
            taken.insert(&problem.path, rows.len());
            rows.push(self.row_for_problem(problem));
        }
        (rows, remarks)
    }

    fn row_for_problem(&self, problem: &ScanProblem) -> StageRow {
        let discovered = problem.skill.is_some();
        let named = match (&problem.skill, problem.path.file_name()) {
            (Some(id), _) => id.to_string(),
            (None, Some(name)) => name.to_string_lossy().into_owned(),
            (None, None) => String::new(),
        };
        let stage = if discovered { PromptStage::Parsed } else { PromptStage::Discovered };
        let mut row = StageRow {
            root: self.root_of(&problem.path),
            discovered,
            ..StageRow::new(named, &problem.path)
        };
        row.mark_stopped(stage, true, problem.diagnostic.clone());
        row
    }

    /// Returns the innermost root that contains a path.
    fn root_of(&self, path: &Path) -> Option<String> {
        let roots = self.snapshot.roots().iter().filter(|root| path.starts_with(&root.path));
        // All candidates are prefixes of one path, so the longest is the innermost.
        let root = roots.max_by_key(|root| root.path.as_os_str().len());
        root.map(|root| root.label.clone())
    }

    /// Builds the row of a skill whose id is unique or which takes precedence.
    fn row_for_primary(&self, skill: &Skill) -> StageRow {
        let mut row = self.row_for_parsed(skill);
        let state = self.snapshot.state(skill);
        row.visible = state <= SkillState::NameOnly;
        // A skill that models are not offered does not belong in the list.
        row.unlisted = row.unlisted.filter(|_| row.visible);
        let line = self.lines.get(skill.id().as_str());
        row.in_l1 = line.is_some();
        if !row.visible {
            let setting = self.snapshot.matching_setting(skill).unwrap_or_default();
            let found = match state {
                SkillState::UserOnly if !skill.is_model_invocable() => Diagnostic::note(
                    "disable-model-invocation",
                    "it is for users only: it sets `disable-model-invocation`",
                ),
                _ => Diagnostic::note(
                    "settings.skills",
                    format!("it is {}: the settings say so of `{setting}`", state.as_str()),
                )
                .with_help(format!("skillhost skill enable {}", skill.id())),
            };
            row.mark_stopped(PromptStage::Visible, false, found);
        } else if self.picks {
            let message = "there are more skills than are all listed: it has a line where a prompt \
                asks for it";
            let help = "`skillhost skill explain --agent ID --prompt TEXT` says for which";
            row.mark_stopped(
                PromptStage::InL1,
                false,
                Diagnostic::note("catalog.picked", message).with_help(help),
            );
        } else if let Some(line) = line {
            row.id_only = line.ends_with('`');
        } else {
            let message = "the catalog has no room for it: models find it by searching alone";
            let help = "shorten descriptions, make skills user-only, or raise `l1_budget_chars`";
            let found = Diagnostic::error("catalog.budget", message).with_help(help);
            row.mark_stopped(PromptStage::InL1, true, found);
        }
        row
    }

    /// Builds the row of a skill shadowed by another one with the same id.
    fn row_for_shadowed(
        &self,
        skill: &Skill,
        rule: &'static str,
        defect: bool,
        more: &str,
    ) -> StageRow {
        let mut row = StageRow { unlisted: None, ..self.row_for_parsed(skill) };
        let winner = self.snapshot.get(skill.id().as_str());
        let winner = winner.map_or_else(String::new, |winner| {
            format!("{} in root `{}`", winner.location().display(), winner.source())
        });
        let found = Diagnostic::warning(rule, format!("its id is taken by {winner}{more}"));
        let help = if defect { "rename one of the two directories" } else { "remove one of them" };
        row.mark_stopped(PromptStage::Visible, defect, found.with_help(help));
        row
    }

    /// Builds the row of a parsed skill with its validity and requirements.
    fn row_for_parsed(&self, skill: &Skill) -> StageRow {
        let mut row = StageRow {
            root: Some(skill.source().to_owned()),
            discovered: true,
            parsed: true,
            trust: Some(skill.trust()),
            ..StageRow::new(skill.id().to_string(), &skill.location())
        };
        if skill.trust() == TrustLevel::Untrusted {
            row.notes.push(
                "untrusted: it is listed with its origin, cannot be bound and grants nothing"
                    .to_owned(),
            );
        }
        let options = CheckOptions { profile: self.profile, scope: CheckScope::Validate };
        let read = open(&skill.dir()).and_then(|mut found| {
            let files = found.read(skill_rules::needs_files(options));
            Ok((files.map_err(|problem| problem.message)?, found))
        });
        let (files, found) = match read {
            Ok(read) => read,
            Err(message) => {
                row.notes.push(format!("it was not checked: {message}"));
                return row;
            }
        };
        let input = SkillInput {
            dir_name: skill.id().as_str(),
            file_name: Some(&files.file_name),
            bytes: &files.bytes,
            files: files.files.as_deref(),
        };
        let report = skill_rules::check_skill(&input, options);
        row.valid = Some(report.is_valid());
        row.unlisted = explain_unlisted(&files.bytes);
        if let Some(error) = report.with_severity(Severity::Error).next() {
            row.mark_stopped(PromptStage::Valid, true, error.clone());
        }
        let parsed = skill_format::parse_skill(skill.id().as_str(), &files.bytes);
        if let Some(frontmatter) = parsed.ok().and_then(|text| text.parsed.frontmatter) {
            self.check_requirements(&found, &frontmatter, &mut row);
        }
        row
    }

    /// Checks the requirements of a skill.
    fn check_requirements(
        &self,
        found: &FoundSkill,
        frontmatter: &Frontmatter,
        row: &mut StageRow,
    ) {
        let mut extended = ExtendedSpec::from_frontmatter(frontmatter);
        if let Ok(ResourceContent::Text(yaml)) = found.read_resource(SKILL_YAML)
            && yaml.len() <= SKILL_YAML_LIMIT
        {
            extended = extended
                .merge_with(ParsedExtendedSpec::parse_skill_yaml(&yaml, &row.skill_id).extended);
        }
        let there = |id: &str| self.snapshot.get(id).is_some();
        let found = check_eligibility(&frontmatter.requires, &extended, &there, None);
        row.eligible = Some(found == Eligibility::Eligible);
        if let Eligibility::Ineligible(missing) = found {
            row.missing = missing;
        }
        row.unchecked_tools =
            unchecked_tools(&extended, None).into_iter().map(str::to_owned).collect();
    }
}

impl StageRow {
    /// Creates the row of a directory that has reached no stage.
    fn new(skill_id: String, path: &Path) -> Self {
        Self {
            skill_id,
            root: None,
            path: path.display().to_string(),
            discovered: false,
            parsed: false,
            valid: None,
            visible: false,
            in_l1: false,
            id_only: false,
            stopped_at: None,
            defect: false,
            reason: None,
            copy_of: None,
            trust: None,
            eligible: None,
            missing: Vec::new(),
            unchecked_tools: Vec::new(),
            unlisted: None,
            notes: Vec::new(),
        }
    }

    /// Returns whether an identical skill is used instead.
    pub(super) fn is_copy(&self) -> bool {
        self.copy_of.is_some()
    }

    /// Records the reason for a missed stage, unless an earlier stage already stopped the skill.
    fn mark_stopped(&mut self, stage: PromptStage, defect: bool, reason: Diagnostic) {
        if self.stopped_at.is_none() {
            (self.stopped_at, self.defect, self.reason) = (Some(stage), defect, Some(reason));
        }
    }
}

/// Opens the skill in a directory.
fn open(dir: &Path) -> Result<FoundSkill, String> {
    let found = find_skills(dir, &mut |found| ControlFlow::Break(found));
    match found {
        ControlFlow::Break(FoundItem::Skill(skill)) => Ok(skill),
        ControlFlow::Break(FoundItem::Problem(problem)) => Err(problem.message),
        ControlFlow::Continue(()) => Err("it is gone".to_owned()),
    }
}
