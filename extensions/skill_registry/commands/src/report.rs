//! The report of `validate` and `lint`: findings in several formats, one skill at a time.

mod github;
mod human;
mod json;
mod jsonl;
mod line_excerpt;
mod reference;
mod sarif;
mod sidecar;
mod writer;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use serde_json::value::{RawValue, to_raw_value};
use skill_catalog::{FoundProblem, ProblemKind};
use skill_format::Diagnostic;
use skill_rules::{Finding, Profile, SkillDocument, collect_properties};
use skillhost_terminal::{CliContext, CliError, Output, ignore_broken_pipe};

use crate::arguments::ReportFormat;

pub(super) use self::sidecar::SidecarReport;
use self::writer::{CheckSummary, ReportWriter};
pub(super) use self::writer::{CheckedSkill, FixRecord};

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

    /// Creates a report that ends with the totals of each rule.
    pub(super) fn with_rule_totals(output: Output, format: ReportFormat, profile: Profile) -> Self {
        let mut report = Self::new(output, format, profile);
        report.summary.rules = Some(BTreeMap::new());
        report
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

    /// Adds the findings about the files next to the SKILL.md of a skill that was added before.
    pub(super) fn add_sidecars(
        &mut self,
        sidecars: &[SidecarReport],
        dir: &Path,
        mut was_valid: bool,
    ) -> Result<(), CliError> {
        for sidecar in sidecars {
            let checked = sidecar.as_checked_skill(dir);
            self.add_findings(&checked, was_valid)?;
            // Counted once as not valid.
            was_valid &= checked.is_valid();
        }
        Ok(())
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
            suppressed: &[],
            fix: FixRecord::NONE,
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

    /// Ends the report of a run in which policies excluded some skills.
    pub(super) fn finish_with_excluded(
        mut self,
        excluded: usize,
    ) -> Result<CheckSummary, CliError> {
        self.summary.excluded = excluded;
        self.finish()
    }

    /// Ends the report with some lines instead of the totals.
    pub(super) fn finish_with_lines(mut self, lines: &[String]) -> Result<(), CliError> {
        let written = lines.iter().try_for_each(|line| writeln!(self.out, "{line}"));
        ignore_broken_pipe(written.and_then(|()| self.out.flush()))
    }

    /// Ends the report.
    fn finish(mut self) -> Result<CheckSummary, CliError> {
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
