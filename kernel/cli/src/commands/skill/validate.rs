//! `skillhost skill validate`: whether skills conform.

use skill_rules::{
    CheckOptions, CheckScope, SkillDocument, SkillInput, check_subject, needs_files,
};

use super::batch::{Item, for_each, worse};
use super::report::{Beside, Checked, Report, format};
use crate::cli::ValidateArgs;
use crate::exit;
use crate::output::Outcome;
use crate::session::Session;

pub(super) fn validate(session: &Session, args: &ValidateArgs) -> Outcome {
    let profile = args.profile.into();
    let format = format(session, args.format, args.jsonl, profile)?;
    let options = CheckOptions { profile, scope: CheckScope::Validate };
    let mut report = Report::new(session.output, format, profile);
    let batch = for_each(session, &args.paths, needs_files(options), |item| match item {
        Item::Problem(problem) => report.problem(problem),
        Item::Skill(skill, files) => {
            let input = SkillInput {
                dir_name: &skill.dir_name,
                file_name: Some(&files.file_name),
                bytes: &files.bytes,
                files: files.files.as_deref(),
            };
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
                fixed: None,
            };
            report.skill(&checked)?;
            match beside {
                Some(beside) => report.more(&beside.checked(&skill.dir), checked.is_valid()),
                None => Ok(()),
            }
        }
    })?;
    let summary = report.end()?;
    let failed = summary.errors > 0 || (args.strict && summary.warnings > 0);
    Ok(worse(batch.code, if failed { exit::FINDINGS } else { exit::OK }))
}
