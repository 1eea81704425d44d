//! `skillhost skill lint`: whether skills are good.

mod catalog;
mod mend;

use skill_rules::{
    CheckOptions, CheckScope, SkillDocument, SkillInput, check_subject, needs_files,
};
use skill_store::{FoundSkill, ReplaceError, SkillFiles, replace_file};

use self::catalog::Catalog;
use self::mend::mended;
use super::batch::{Item, for_each, worse};
use super::recorded::Recorder;
use super::report::{Beside, Checked, Report, format};
use super::rules::explain;
use crate::cli::{Format, LintArgs};
use crate::error::CliError;
use crate::exit;
use crate::output::Outcome;
use crate::session::Session;

pub(super) fn lint(session: &Session, args: &LintArgs) -> Outcome {
    if let Some(rule) = &args.explain {
        return explain(session, rule);
    }
    let profile = args.profile.into();
    let format = format(session, args.format, args.jsonl, profile)?;
    if format == Format::Reference {
        return Err(CliError::usage("the reference validator has no lint")
            .hint("`skillhost skill validate` has its form"));
    }
    let options = CheckOptions { profile, scope: CheckScope::Lint };
    let mut report = Report::new(session.output, format, profile);
    let mut catalog = Catalog::default();
    let mut failed = exit::OK;
    let recorder = Recorder::new(session);
    let batch = for_each(session, &args.paths, needs_files(options), |item| match item {
        Item::Problem(problem) if report.is_per_skill() => catalog.hold_problem(problem),
        Item::Problem(problem) => report.problem(problem),
        Item::Skill(skill, mut files) => {
            let mut fixed = args.fix.then_some(0);
            if args.fix {
                match fix(skill, &mut files, options, &recorder) {
                    Ok(count) => fixed = Some(count),
                    Err(error) => {
                        failed = worse(failed, error.code());
                        report.failure(&error)?;
                    }
                }
            }
            let input = input(skill, &files);
            let subject = SkillDocument::new(&input, profile);
            let mut findings = check_subject(&subject, options.scope).findings;
            let mut beside = Beside::of(&skill.dir, &skill.dir_name, options);
            if report.is_per_skill() {
                findings.extend(beside.take().into_iter().flat_map(Beside::into_findings));
            }
            let properties = report.properties(&subject)?;
            let checked = Checked {
                path: &skill.path(),
                dir: &skill.dir,
                bytes: &files.bytes,
                findings: &findings,
                properties: properties.as_deref(),
                fixed,
            };
            catalog.add(&subject, &checked);
            if report.is_per_skill() {
                return catalog.hold(&checked);
            }
            report.skill(&checked)?;
            match beside {
                Some(beside) => report.more(&beside.checked(&skill.dir), checked.is_valid()),
                None => Ok(()),
            }
        }
    })?;
    catalog.tell(&mut report)?;
    let summary = report.end()?;
    if summary.errors > 0 || summary.warnings > 0 {
        failed = worse(failed, exit::FINDINGS);
    }
    Ok(worse(batch.code, failed))
}

fn input<'a>(skill: &'a FoundSkill, files: &'a SkillFiles) -> SkillInput<'a> {
    SkillInput {
        dir_name: &skill.dir_name,
        file_name: Some(&files.file_name),
        bytes: &files.bytes,
        files: files.files.as_deref(),
    }
}

/// Mends a skill's file on the disk; returns how many findings are gone. If it fails, nothing has
/// changed.
fn fix(
    skill: &FoundSkill,
    files: &mut SkillFiles,
    options: CheckOptions,
    recorder: &Recorder<'_>,
) -> Result<usize, CliError> {
    let Some((bytes, fixed)) = mended(&input(skill, files), options) else { return Ok(0) };
    let path = skill.path();
    recorder.replacing(&path, || {
        replace_file(&path, &files.bytes, &bytes).map_err(|error| {
            let code = match &error {
                ReplaceError::Changed { .. } => exit::CONFLICT,
                _ => exit::IO,
            };
            CliError::new(code, error.to_string()).hint("it is as it was")
        })
    })?;
    files.bytes = bytes;
    Ok(fixed)
}
