//! `skillhost skill validate`: conformance of skills.

use skill_format::SkillInput;
use skill_policy::RuleSelection;
use skill_rules::{CheckScope, SkillDocument};
use skillhost_terminal::{CliContext, CommandResult, exit};

use super::batch::{BatchItem, first_path, for_each_chosen, worst_exit_code};
use super::policy_run::PolicyRun;
use super::report::{CheckedSkill, FindingsReport, FixRecord, SidecarReport, resolve_format};
use crate::arguments::ValidateArgs;

pub(super) fn cmd_skill_validate(session: &CliContext, args: &ValidateArgs) -> CommandResult {
    let selection = RuleSelection::default();
    let policies = PolicyRun::new(session, &args.policy, CheckScope::Validate, selection)?;
    let profile = policies.profile_of(first_path(&args.paths))?;
    let format = resolve_format(session, args.format, args.jsonl, profile)?;
    let mut report = FindingsReport::new(session.output, format, profile);
    let batch = for_each_chosen(session, &args.paths, &policies, |item| match item {
        BatchItem::Problem(problem) => report.add_problem(problem),
        BatchItem::Skill(skill, files) => {
            let input = SkillInput {
                dir_name: &skill.dir_name,
                file_name: Some(&files.file_name),
                bytes: &files.bytes,
                files: files.files.as_deref(),
            };
            let rules = &policies.current().rules;
            let subject = SkillDocument::new(&input, rules.options().profile);
            let mut findings = rules.check(&subject).findings;
            let mut sidecars = SidecarReport::check_all(&skill.dir, &skill.dir_name, rules);
            if report.is_per_skill() {
                findings.extend(sidecars.drain(..).flat_map(SidecarReport::into_findings));
            }
            let properties = report.properties(&subject)?;
            let checked = CheckedSkill {
                path: &skill.path(),
                dir: &skill.dir,
                bytes: &files.bytes,
                findings: &findings,
                properties: properties.as_deref(),
                suppressed: &[],
                fix: FixRecord::NONE,
            };
            report.add_skill(&checked)?;
            report.add_sidecars(&sidecars, &skill.dir, checked.is_valid())
        }
    })?;
    let summary = report.finish_with_excluded(policies.excluded())?;
    let failed = summary.errors > 0 || (args.strict && summary.warnings > 0);
    Ok(worst_exit_code(batch.code, if failed { exit::FINDINGS } else { exit::OK }))
}
