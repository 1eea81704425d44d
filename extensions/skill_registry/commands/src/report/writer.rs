//! What a report consists of, and the interface of its formats.

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use serde_json::value::RawValue;
use skill_format::{Diagnostic, Severity};
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
    /// The number of fixed findings; `None` without `--fix`.
    pub(crate) fixed: Option<usize>,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
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
        self.fixed += checked.fixed.unwrap_or_default();
    }

    /// Formats the totals on one line for users.
    pub(super) fn line(&self) -> String {
        let counted = |count: usize, what: &str| {
            let plural = if count == 1 { "" } else { "s" };
            (count > 0).then(|| format!("{count} {what}{plural}"))
        };
        let valid = match self.valid {
            0 if self.skills == 0 => None,
            1 if self.skills == 1 => Some("valid".to_owned()),
            valid if valid == self.skills => Some("all valid".to_owned()),
            valid => Some(format!("{valid} valid")),
        };
        let parts = [
            valid,
            counted(self.errors, "error"),
            counted(self.warnings, "warning"),
            counted(self.notes, "note"),
            counted(self.problems, "problem"),
            (self.fixed > 0).then(|| format!("{} mended", self.fixed)),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let skills = counted(self.skills, "skill").unwrap_or_else(|| "no skill checked".to_owned());
        if parts.is_empty() { skills } else { format!("{skills}: {}", parts.join(", ")) }
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
mod tests {
    use super::*;

    #[test]
    fn summary_line_omits_zero_counts() {
        let line = |skills, valid, [errors, warnings, notes, problems, fixed]: [usize; 5]| {
            CheckSummary { skills, valid, errors, warnings, notes, problems, fixed }.line()
        };
        assert_eq!(line(0, 0, [0; 5]), "no skill checked");
        assert_eq!(line(0, 0, [0, 0, 0, 1, 0]), "no skill checked: 1 problem");
        assert_eq!(line(1, 1, [0; 5]), "1 skill: valid");
        assert_eq!(line(1, 0, [1, 0, 0, 0, 0]), "1 skill: 0 valid, 1 error");
        assert_eq!(line(3, 3, [0, 1, 2, 0, 0]), "3 skills: all valid, 1 warning, 2 notes");
        assert_eq!(
            line(3, 1, [4, 0, 0, 2, 5]),
            "3 skills: 1 valid, 4 errors, 2 problems, 5 mended"
        );
    }
}
