//! The rule type and the sink for its findings.

use std::ops::Range;

use serde::Serialize;
use skill_format::{Diagnostic, Severity};
use yaml_tree::Span;

use crate::profile::ProfileLevels;
use crate::skill_document::SkillDocument;

/// The kind of advice that a rule gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleGroup {
    /// Conformance to the profile.
    Validation,
    /// Quality of the skill; only `lint` runs these rules.
    Lint,
}

/// The part of a skill that a rule reads, cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleExtent {
    /// The frontmatter and the number of lines: every `validate` runs it.
    Head,
    /// The text of the body: links, headings, characters.
    Body,
    /// The other files of the skill.
    Directory,
}

/// One check with its documentation.
#[derive(Debug)]
pub struct Rule {
    /// The stable id, such as `name.format`.
    pub id: &'static str,
    /// The kind of advice.
    pub group: RuleGroup,
    /// The part of the skill that the rule reads.
    pub extent: RuleExtent,
    /// A one-line description of the defect: lower case, no final period.
    pub summary: &'static str,
    /// The level in each profile.
    pub levels: ProfileLevels,
    /// Whether `lint --fix` or `fmt` fixes the finding.
    pub fixable: bool,
    /// Markdown with the sections What it does, Why is this bad, Bad, Good. The examples of the
    /// last two run as tests.
    pub docs: &'static str,
    /// The source of the findings.
    pub check: RuleCheck,
}

/// The source of a rule's findings.
#[derive(Clone, Copy, Debug)]
pub enum RuleCheck {
    /// Loading (`skill_format::parse_skill`); the profile only sets the level.
    Loading,
    /// Loading, then the function: it adds findings of stricter profiles, or removes findings that
    /// a profile allows.
    LoadingAnd(fn(&SkillDocument<'_>, &mut FindingSink<'_>)),
    /// The function.
    Skill(fn(&SkillDocument<'_>, &mut FindingSink<'_>)),
    /// The extended declarations of the frontmatter ([`skill_compat::extended`]), under the rule's id.
    Declared,
    /// The caller's directory scan, before a skill is checked.
    Reading,
    /// The suppressions, after all other rules.
    Suppression,
    /// A comparison of several skills: see the catalog rules.
    Catalog,
}

/// A finding with its fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The diagnostic.
    pub diagnostic: Diagnostic,
    /// The edits of `--fix`; empty if the user has to decide.
    pub edits: Vec<TextEdit>,
}

impl Finding {
    /// Returns `true` if `lint --fix` resolves the finding. A byte order mark is removed with the
    /// bytes of the file, not by an edit of its text.
    #[must_use]
    pub fn is_fixable(&self) -> bool {
        !self.edits.is_empty() || self.diagnostic.rule == "file.bom"
    }
}

/// A replacement in the decoded text of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextEdit {
    /// The bytes to replace.
    pub range: Range<usize>,
    /// The replacement text.
    pub replacement: String,
}

/// A sink for the findings of one rule.
#[derive(Debug)]
pub struct FindingSink<'a> {
    rule: &'static Rule,
    severity: Severity,
    list: &'a mut Vec<Finding>,
}

impl<'a> FindingSink<'a> {
    pub(crate) fn new(rule: &'static Rule, severity: Severity, list: &'a mut Vec<Finding>) -> Self {
        Self { rule, severity, list }
    }

    /// Returns `true` if the rule already has findings, such as from loading.
    pub(crate) fn has_findings(&self) -> bool {
        // The list is shared by all rules, so that the id decides.
        self.list.iter().any(|found| found.diagnostic.rule == self.rule.id)
    }

    /// Removes the findings of the rule for which `keep` returns `false`.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Diagnostic) -> bool) {
        let id = self.rule.id;
        self.list.retain(|found| found.diagnostic.rule != id || keep(&found.diagnostic));
    }

    /// Reports a finding at a position; `Span::default()` is the whole file.
    pub fn add(&mut self, at: Span, message: impl Into<String>, help: impl Into<String>) {
        self.add_fixable(at, message, help, Vec::new());
    }

    /// Reports a finding with the edits that fix it.
    pub fn add_fixable(
        &mut self,
        at: Span,
        message: impl Into<String>,
        help: impl Into<String>,
        edits: Vec<TextEdit>,
    ) {
        let help = help.into();
        let diagnostic = Diagnostic {
            rule: self.rule.id,
            severity: self.severity,
            line: at.line,
            column: at.column,
            message: message.into(),
            // Consumers print a hint line for every `Some`, even an empty one.
            help: (!help.is_empty()).then_some(help),
        };
        self.list.push(Finding { diagnostic, edits });
    }
}
