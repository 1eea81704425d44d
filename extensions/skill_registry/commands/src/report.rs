//! The report of `validate` and `lint`: findings in several formats, one skill at a time.

mod beside;
mod github;
mod human;
mod json;
mod jsonl;
mod place;
mod reference;
mod sarif;

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use skill_catalog::{FoundProblem, ProblemKind};
use skill_format::{Diagnostic, Severity};
use skill_rules::{Finding, Profile, SkillDocument, collect_properties};
use skillhost_terminal::{CliContext, CliError, Output, ignore_broken_pipe};

use crate::arguments::ReportFormat;

pub(super) use self::beside::SidecarReport;

/// One skill and its findings, or a path without a skill.
pub(super) struct CheckedSkill<'a> {
    /// The SKILL.md, or the path from the command line.
    pub(super) path: &'a Path,
    /// The skill's directory, or the path from the command line.
    pub(super) dir: &'a Path,
    /// The file's bytes, which findings point into.
    pub(super) bytes: &'a [u8],
    /// The findings in the order of the file.
    pub(super) findings: &'a [Finding],
    /// The fields of the frontmatter, if the format includes them.
    pub(super) properties: Option<&'a RawValue>,
    /// The number of fixed findings; `None` without `--fix`.
    pub(super) fixed: Option<usize>,
}

impl CheckedSkill<'_> {
    fn diagnostics(&self) -> impl Iterator<Item = &Diagnostic> {
        self.findings.iter().map(|found| &found.diagnostic)
    }

    pub(super) fn is_valid(&self) -> bool {
        self.diagnostics().all(|found| found.severity != Severity::Error)
    }

    fn count(&self, severity: Severity) -> usize {
        self.diagnostics().filter(|found| found.severity == severity).count()
    }
}

/// The totals of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct CheckSummary {
    /// The number of checked skills.
    pub(super) skills: usize,
    /// The number of skills without an error.
    pub(super) valid: usize,
    pub(super) errors: usize,
    pub(super) warnings: usize,
    pub(super) notes: usize,
    /// The number of paths without a checkable skill.
    pub(super) problems: usize,
    /// The number of fixed findings, which the other counts exclude.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) fixed: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl CheckSummary {
    fn count(&mut self, checked: &CheckedSkill<'_>) {
        self.errors += checked.count(Severity::Error);
        self.warnings += checked.count(Severity::Warning);
        self.notes += checked.count(Severity::Note);
        self.fixed += checked.fixed.unwrap_or_default();
    }

    /// Formats the totals on one line for users.
    fn line(&self) -> String {
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
trait ReportWriter {
    /// Writes one skill.
    fn write_skill(&mut self, checked: &CheckedSkill<'_>, out: &mut dyn Write) -> io::Result<()>;

    /// Writes a path without a checkable skill.
    fn write_problem(&mut self, checked: &CheckedSkill<'_>, out: &mut dyn Write) -> io::Result<()> {
        self.write_skill(checked, out)
    }

    /// Writes the end of the report.
    fn finish(&mut self, summary: &CheckSummary, out: &mut dyn Write) -> io::Result<()>;
}

/// The report of one run.
pub(super) struct FindingsReport {
    output: Output,
    format: ReportFormat,
    form: Box<dyn ReportWriter>,
    out: Box<dyn Write>,
    summary: CheckSummary,
}

impl FindingsReport {
    pub(super) fn new(output: Output, format: ReportFormat, profile: Profile) -> Self {
        let form: Box<dyn ReportWriter> = match format {
            ReportFormat::Human => Box::new(human::HumanWriter::new(output)),
            ReportFormat::Json => Box::new(json::JsonWriter::default()),
            ReportFormat::Jsonl => Box::new(jsonl::JsonlWriter),
            ReportFormat::Sarif => Box::new(sarif::SarifWriter::new(profile)),
            ReportFormat::Github => Box::new(github::GithubWriter),
            ReportFormat::Reference => Box::new(reference::ReferenceWriter(output)),
        };
        let out = Box::new(output.buffered());
        Self { output, format, form, out, summary: CheckSummary::default() }
    }

    /// Returns whether the format has one entry per skill, so that later additions are impossible.
    pub(super) fn is_per_skill(&self) -> bool {
        matches!(self.format, ReportFormat::Json | ReportFormat::Jsonl)
    }

    /// Returns what the reference validator reads from the frontmatter, if the format includes it.
    pub(super) fn properties(
        &self,
        subject: &SkillDocument<'_>,
    ) -> Result<Option<Box<RawValue>>, CliError> {
        let raw = self.is_per_skill().then(|| to_raw_value(&collect_properties(subject)));
        Ok(raw.transpose().map_err(io::Error::from)?)
    }

    /// Adds a skill.
    pub(super) fn add_skill(&mut self, checked: &CheckedSkill<'_>) -> Result<(), CliError> {
        self.summary.skills += 1;
        self.summary.valid += usize::from(checked.is_valid());
        self.add(checked)
    }

    /// Adds findings about a skill that was added before.
    pub(super) fn add_findings(
        &mut self,
        checked: &CheckedSkill<'_>,
        was_valid: bool,
    ) -> Result<(), CliError> {
        self.summary.valid -= usize::from(was_valid && !checked.is_valid());
        self.add(checked)
    }

    fn add(&mut self, checked: &CheckedSkill<'_>) -> Result<(), CliError> {
        self.summary.count(checked);
        ignore_broken_pipe(self.form.write_skill(checked, &mut self.out))
    }

    /// Adds a path that could not be checked.
    pub(super) fn add_problem(&mut self, problem: &FoundProblem) -> Result<(), CliError> {
        let place = problem.path.display();
        if problem.kind == ProblemKind::Link {
            self.output.print_note(format!("{place}: {}; {}", problem.message, problem.help));
            return Ok(());
        }
        let message = match (self.format, problem.kind) {
            (ReportFormat::Reference, ProblemKind::NotFound) => {
                format!("Path does not exist: {place}")
            }
            (ReportFormat::Reference, ProblemKind::NoSkill) => {
                "Missing required file: SKILL.md".to_owned()
            }
            _ => problem.message.clone(),
        };
        let mut diagnostic = Diagnostic::error(problem.rule, message);
        if !problem.help.is_empty() {
            diagnostic = diagnostic.with_help(problem.help);
        }
        let found = [Finding { diagnostic, edits: Vec::new() }];
        let checked = CheckedSkill {
            path: &problem.path,
            dir: &problem.path,
            bytes: &[],
            findings: &found,
            properties: None,
            fixed: None,
        };
        self.summary.problems += 1;
        let is_result = matches!(problem.kind, ProblemKind::NoSkill | ProblemKind::Unusable);
        if is_result || self.format == ReportFormat::Reference {
            return ignore_broken_pipe(self.form.write_skill(&checked, &mut self.out));
        }
        if matches!(self.format, ReportFormat::Human | ReportFormat::Github) {
            let error = CliError::usage(format!("{place}: {}", problem.message));
            return self.add_failure(&error.with_hint(problem.help));
        }
        ignore_broken_pipe(self.form.write_problem(&checked, &mut self.out))
    }

    /// Reports a failure: not a result, but ordered after the results before it.
    pub(super) fn add_failure(&mut self, error: &CliError) -> Result<(), CliError> {
        ignore_broken_pipe(self.out.flush())?;
        self.output.print_error(error);
        Ok(())
    }

    /// Ends the report.
    pub(super) fn finish(mut self) -> Result<CheckSummary, CliError> {
        ignore_broken_pipe(self.form.finish(&self.summary, &mut self.out))?;
        ignore_broken_pipe(self.out.flush())?;
        Ok(self.summary)
    }
}

/// Returns the requested format.
///
/// # Errors
/// Fails if two formats are requested, or one that the profile excludes.
pub(super) fn resolve_format(
    session: &CliContext,
    format: Option<ReportFormat>,
    jsonl: bool,
    profile: Profile,
) -> Result<ReportFormat, CliError> {
    let mut formats = Vec::new();
    formats.extend(format);
    formats.extend(jsonl.then_some(ReportFormat::Jsonl));
    formats.extend(session.output.json.then_some(ReportFormat::Json));
    formats.dedup();
    match formats[..] {
        [] => Ok(ReportFormat::Human),
        [ReportFormat::Reference] if profile != Profile::Reference => {
            Err(CliError::usage("--format reference requires --profile reference")
                .with_hint("give both, or another format"))
        }
        [one] => Ok(one),
        _ => Err(CliError::usage("--format conflicts with --json or with another format")
            .with_hint("give one of them")),
    }
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
