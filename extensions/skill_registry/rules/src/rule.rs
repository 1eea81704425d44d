//! What a rule is, and what it reports into.

use std::ops::Range;

use serde::Serialize;
use skill_format::{Diagnostic, Severity, Span};

use crate::profile::ProfileLevels;
use crate::subject::SkillDocument;

/// What kind of advice a rule gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleGroup {
    /// Whether the skill conforms.
    Validation,
    /// Whether the skill is good; only `lint` asks.
    Lint,
}

/// How much of a skill a rule looks at, cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleExtent {
    /// The frontmatter and the number of lines: every `validate` runs it.
    Head,
    /// The text of the body: links, headings, characters.
    Body,
    /// The other files of the skill.
    Folder,
}

/// One check with its documentation.
#[derive(Debug)]
pub struct Rule {
    /// The stable id, such as `name.format`.
    pub id: &'static str,
    /// What kind of advice it gives.
    pub group: RuleGroup,
    /// How much it looks at.
    pub reach: RuleExtent,
    /// One line: what is wrong where it finds something; lower case, no final period.
    pub summary: &'static str,
    /// How serious that is.
    pub levels: ProfileLevels,
    /// Whether `lint --fix` or `fmt` mends it.
    pub fixable: bool,
    /// Markdown with the sections What it does, Why is this bad, Bad, Good. The examples of the last
    /// two run as tests.
    pub docs: &'static str,
    /// How it is found.
    pub check: RuleCheck,
}

/// How a rule's findings come about.
#[derive(Clone, Copy, Debug)]
pub enum RuleCheck {
    /// Loading finds it (`skill_format::parse`); the profile only sets how serious it is.
    Loading,
    /// Loading finds most of it; then the function adds what stricter profiles want, or takes back
    /// what others allow.
    LoadingAnd(fn(&SkillDocument<'_>, &mut FindingSink<'_>)),
    /// The function finds it.
    Skill(fn(&SkillDocument<'_>, &mut FindingSink<'_>)),
    /// Reading what the frontmatter declares (`crate::extended`) finds it, under the rule's id.
    Declared,
    /// Reading the disk finds it, before there is anything to check.
    Reading,
    /// What the other rules found shows it: see the suppressions.
    Suppression,
    /// It takes several skills to find it: see the catalog rules.
    Catalog,
}

/// A finding and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was found.
    pub diagnostic: Diagnostic,
    /// What `--fix` does about it; empty if that takes a person.
    pub edits: Vec<TextEdit>,
}

/// A replacement in the decoded text of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextEdit {
    /// The bytes to replace.
    pub range: Range<usize>,
    /// What to put there.
    pub replacement: String,
}

/// Takes what one rule finds.
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

    /// Tells whether the rule has found something already, such as while loading.
    pub(crate) fn has_findings(&self) -> bool {
        self.list.iter().any(|found| found.diagnostic.rule == self.rule.id)
    }

    /// Takes back those findings of the rule, such as loading's, for which `keep` says no.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Diagnostic) -> bool) {
        let id = self.rule.id;
        self.list.retain(|found| found.diagnostic.rule != id || keep(&found.diagnostic));
    }

    /// Reports at a place; `Span::default()` is the file as a whole.
    pub fn add(&mut self, at: Span, message: impl Into<String>, help: impl Into<String>) {
        self.add_fixable(at, message, help, Vec::new());
    }

    /// Reports with the edits that mend it.
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
            help: (!help.is_empty()).then_some(help),
        };
        self.list.push(Finding { diagnostic, edits });
    }
}
