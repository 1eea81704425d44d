//! `skillhost skill validate`: conformance of skills.

use skill_format::SkillInput;
use skill_rules::{CheckOptions, CheckScope, SkillDocument, check_subject, needs_files};
use skillhost_terminal::{CliContext, CommandResult, exit};

use super::batch::{BatchItem, for_each, worst_exit_code};
use super::report::{CheckedSkill, FindingsReport, SidecarReport, resolve_format};
use crate::arguments::ValidateArgs;

pub(super) fn cmd_skill_validate(session: &CliContext, args: &ValidateArgs) -> CommandResult {
    let profile = args.profile.into();
    let format = resolve_format(session, args.format, args.jsonl, profile)?;
    let options = CheckOptions { profile, scope: CheckScope::Validate };
    let mut report = FindingsReport::new(session.output, format, profile);
    let batch = for_each(session, &args.paths, needs_files(options), |item| match item {
        BatchItem::Problem(problem) => report.add_problem(problem),
        BatchItem::Skill(skill, files) => {
            let input = SkillInput {
                dir_name: &skill.dir_name,
                file_name: Some(&files.file_name),
                bytes: &files.bytes,
                files: files.files.as_deref(),
            };
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
                fixed: None,
            };
            report.add_skill(&checked)?;
            match sidecar {
                Some(sidecar) => {
                    report.add_findings(&sidecar.as_checked_skill(&skill.dir), checked.is_valid())
                }
                None => Ok(()),
            }
        }
    })?;
    let summary = report.finish()?;
    let failed = summary.errors > 0 || (args.strict && summary.warnings > 0);
    Ok(worst_exit_code(batch.code, if failed { exit::FINDINGS } else { exit::OK }))
}
