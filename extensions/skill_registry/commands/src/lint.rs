//! `skillhost skill lint`: quality checks of skills.

mod catalog;
mod fix;

use skill_catalog::{FoundSkill, SkillFiles};
use skill_format::SkillInput;
use skill_rules::{CheckOptions, CheckScope, SkillDocument, check_subject, needs_files};
use skillhost_files::{ReplaceError, replace_file};
use skillhost_terminal::{CliContext, CliError, CommandResult, exit};

use self::catalog::CrossSkillLinter;
use self::fix::fix_file;
use super::batch::{BatchItem, for_each, worst_exit_code};
use super::recorded::Recorder;
use super::report::{CheckedSkill, FindingsReport, SidecarReport, resolve_format};
use super::rules::print_rule_page;
use crate::arguments::{LintArgs, ReportFormat};

pub(super) fn cmd_skill_lint(session: &CliContext, args: &LintArgs) -> CommandResult {
    if let Some(rule) = &args.explain {
        return print_rule_page(session, rule);
    }
    let profile = args.profile.into();
    let format = resolve_format(session, args.format, args.jsonl, profile)?;
    if format == ReportFormat::Reference {
        return Err(CliError::usage("the reference validator has no lint")
            .with_hint("`skillhost skill validate` has its form"));
    }
    let options = CheckOptions { profile, scope: CheckScope::Lint };
    let mut report = FindingsReport::new(session.output, format, profile);
    let mut catalog = CrossSkillLinter::default();
    let mut failed = exit::OK;
    let recorder = Recorder::new(session);
    let batch = for_each(session, &args.paths, needs_files(options), |item| match item {
        BatchItem::Problem(problem) if report.is_per_skill() => catalog.buffer_problem(problem),
        BatchItem::Problem(problem) => report.add_problem(problem),
        BatchItem::Skill(skill, mut files) => {
            let mut fixed = args.fix.then_some(0);
            if args.fix {
                match fix(skill, &mut files, options, &recorder) {
                    Ok(count) => fixed = Some(count),
                    Err(error) => {
                        failed = worst_exit_code(failed, error.code());
                        report.add_failure(&error)?;
                    }
                }
            }
            let input = input(skill, &files);
            let subject = SkillDocument::new(&input, profile);
            let mut findings = check_subject(&subject, options.scope).findings;
            let mut sidecar = SidecarReport::check(&skill.dir, &skill.dir_name, options);
            if report.is_per_skill() {
                findings.extend(sidecar.take().into_iter().flat_map(SidecarReport::into_findings));
            }
            let properties = report.properties(&subject)?;
            let checked = CheckedSkill {
                path: &skill.path(),
                dir: &skill.dir,
                bytes: &files.bytes,
                findings: &findings,
                properties: properties.as_deref(),
                fixed,
            };
            catalog.add(&subject, &checked);
            if report.is_per_skill() {
                return catalog.buffer_skill(&checked);
            }
            report.add_skill(&checked)?;
            match sidecar {
                Some(sidecar) => {
                    report.add_findings(&sidecar.as_checked_skill(&skill.dir), checked.is_valid())
                }
                None => Ok(()),
            }
        }
    })?;
    catalog.report_all(&mut report)?;
    let summary = report.finish()?;
    if summary.errors > 0 || summary.warnings > 0 {
        failed = worst_exit_code(failed, exit::FINDINGS);
    }
    Ok(worst_exit_code(batch.code, failed))
}

fn input<'a>(skill: &'a FoundSkill, files: &'a SkillFiles) -> SkillInput<'a> {
    SkillInput {
        dir_name: &skill.dir_name,
        file_name: Some(&files.file_name),
        bytes: &files.bytes,
        files: files.files.as_deref(),
    }
}

/// Fixes a skill's file on disk; returns the number of resolved findings. On error, the file is
/// unchanged.
fn fix(
    skill: &FoundSkill,
    files: &mut SkillFiles,
    options: CheckOptions,
    recorder: &Recorder<'_>,
) -> Result<usize, CliError> {
    let Some((bytes, fixed)) = fix_file(&input(skill, files), options) else { return Ok(0) };
    let path = skill.path();
    recorder.replacing(&path, || {
        replace_file(&path, &files.bytes, &bytes).map_err(|error| {
            let code = match &error {
                ReplaceError::Changed { .. } => exit::CONFLICT,
                _ => exit::IO,
            };
            CliError::new(code, error.to_string()).with_hint("it is as it was")
        })
    })?;
    files.bytes = bytes;
    Ok(fixed)
}
