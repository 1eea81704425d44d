//! What a report consists of, and the interface of its formats.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use serde_json::value::RawValue;
use skill_format::{Diagnostic, Severity};
use skill_policy::SuppressedFinding;
use skill_rules::Finding;

/// One skill and its findings, or a path without a skill.
pub(crate) struct CheckedSkill<'a> {
    /// The SKILL.md, or the path from the command line.
    pub(crate) path: &'a Path,
    /// The skill's directory, or the path from the command line.
    pub(crate) dir: &'a Path,
    /// The file's bytes, which findings point into.
    pub(crate) bytes: &'a [u8],
    /// The findings in the order of the file.
    pub(crate) findings: &'a [Finding],
    /// The fields of the frontmatter, if the format includes them.
    pub(crate) properties: Option<&'a RawValue>,
    /// The findings that comments and the policy suppress.
    pub(crate) suppressed: &'a [SuppressedFinding],
    /// The result of `--fix`.
    pub(crate) fix: &'a FixRecord,
}

/// The result of `--fix` for a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum FixRecord {
    /// Fixes are not requested.
    #[default]
    Unrequested,
    /// The number of findings that were fixed.
    Applied(usize),
    /// What `--dry-run` would write: the number of findings that would be fixed, and the changes.
    Planned { count: usize, diff: String },
}

impl FixRecord {
    /// The result of a file that is not fixed.
    pub(crate) const NONE: &'static Self = &Self::Unrequested;

    /// Returns the number of fixed findings, or `None` without `--fix`.
    pub(super) fn applied(&self) -> Option<usize> {
        match self {
            Self::Applied(count) => Some(*count),
            Self::Unrequested | Self::Planned { .. } => None,
        }
    }
}

impl CheckedSkill<'_> {
    pub(super) fn diagnostics(&self) -> impl Iterator<Item = &Diagnostic> {
        self.findings.iter().map(|found| &found.diagnostic)
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.diagnostics().all(|found| found.severity != Severity::Error)
    }

    pub(super) fn count(&self, severity: Severity) -> usize {
        self.diagnostics().filter(|found| found.severity == severity).count()
    }
}

/// The totals of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct CheckSummary {
    /// The number of checked skills.
    pub(crate) skills: usize,
    /// The number of skills without an error.
    pub(crate) valid: usize,
    pub(crate) errors: usize,
    pub(crate) warnings: usize,
    pub(crate) notes: usize,
    /// The number of paths without a checkable skill.
    pub(crate) problems: usize,
    /// The number of fixed findings, which the other counts exclude.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) fixed: usize,
    /// The number of findings that `--fix` would fix.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) would_fix: usize,
    /// The number of suppressed findings, which the other counts exclude.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) suppressed: usize,
    /// The number of skills that the policy excludes, which the other counts exclude.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) excluded: usize,
    /// The findings of each rule; counted by `lint` alone.
    #[serde(skip)]
    pub(super) rules: Option<BTreeMap<&'static str, RuleTotal>>,
}

/// The findings of a rule in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RuleTotal {
    pub(super) findings: usize,
    /// The number of those that `--fix` fixes.
    pub(super) fixable: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl CheckSummary {
    pub(super) fn count(&mut self, checked: &CheckedSkill<'_>) {
        self.errors += checked.count(Severity::Error);
        self.warnings += checked.count(Severity::Warning);
        self.notes += checked.count(Severity::Note);
        self.suppressed += checked.suppressed.len();
        match checked.fix {
            FixRecord::Unrequested => {}
            FixRecord::Applied(count) => self.fixed += count,
            FixRecord::Planned { count, .. } => self.would_fix += count,
        }
        let Some(rules) = &mut self.rules else { return };
        for found in checked.findings {
            let total = rules.entry(found.diagnostic.rule).or_default();
            total.findings += 1;
            total.fixable += usize::from(found.is_fixable());
        }
    }

    /// Formats the totals on one line for users: first the skills, then the findings.
    pub(super) fn line(&self) -> String {
        let counted = |count: usize, what: &str| {
            let plural = if count == 1 { "" } else { "s" };
            (count > 0).then(|| format!("{count} {what}{plural}"))
        };
        let invalid = self.skills - self.valid;
        let state = match (self.skills, invalid) {
            (0, _) => String::new(),
            (1, 0) => ": valid".to_owned(),
            (1, _) => ": invalid".to_owned(),
            (_, 0) => ": all valid".to_owned(),
            (skills, invalid) if skills == invalid => ": all invalid".to_owned(),
            _ => format!(": {} valid, {invalid} invalid", self.valid),
        };
        let parts = [
            counted(self.errors, "error"),
            counted(self.warnings, "warning"),
            counted(self.notes, "note"),
            counted(self.problems, "problem"),
            (self.fixed > 0).then(|| format!("{} fixed", self.fixed)),
            (self.would_fix > 0).then(|| format!("{} would be fixed", self.would_fix)),
            (self.suppressed > 0).then(|| format!("{} suppressed", self.suppressed)),
            counted(self.excluded, "skill").map(|skills| format!("{skills} excluded")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let skills = counted(self.skills, "skill").unwrap_or_else(|| "no skill checked".to_owned());
        let separator = if parts.is_empty() { "" } else { "; " };
        format!("{skills}{state}{separator}{}", parts.join(", "))
    }

    /// Formats the totals of each rule, the most frequent first, and the number of fixable findings;
    /// empty where a person sees all of that at a glance.
    pub(super) fn rule_lines(&self) -> Vec<String> {
        let Some(rules) = &self.rules else { return Vec::new() };
        let mut lines = Vec::new();
        let (mut all, mut fixable) = (0, 0);
        for total in rules.values() {
            all += total.findings;
            fixable += total.fixable;
        }
        // Totals of one file, or of one finding, would repeat what is printed above them.
        if self.skills + self.problems > 1 && all > 1 {
            let mut sorted: Vec<_> = rules.iter().collect();
            sorted.sort_by(|(a, left), (b, right)| (right.findings, a).cmp(&(left.findings, b)));
            let digits = sorted.first().map_or(1, |(_, total)| total.findings.to_string().len());
            for (rule, RuleTotal { findings, fixable }) in sorted {
                let note = match fixable {
                    0 => String::new(),
                    fixable if fixable == findings => " (fixable)".to_owned(),
                    fixable => format!(" ({fixable} fixable)"),
                };
                lines.push(format!("  {findings:digits$}  {rule}{note}"));
            }
        }
        if fixable > 0 && self.would_fix == 0 {
            lines.push(format!("{fixable} fixable with --fix"));
        }
        lines
    }
}

/// A writer of findings in one format.
pub(super) trait ReportWriter {
    /// Writes one skill.
    fn write_skill(&mut self, checked: &CheckedSkill<'_>, out: &mut dyn Write) -> io::Result<()>;

    /// Writes a path without a checkable skill.
    fn write_problem(&mut self, checked: &CheckedSkill<'_>, out: &mut dyn Write) -> io::Result<()> {
        self.write_skill(checked, out)
    }

    /// Writes the end of the report.
    fn finish(&mut self, summary: &CheckSummary, out: &mut dyn Write) -> io::Result<()>;
}

#[cfg(test)]
mod tests;
