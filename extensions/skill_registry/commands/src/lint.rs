//! `skillhost skill lint`: quality checks of skills.

mod catalog;
mod file_findings;
mod fix;
mod watch;

use skill_catalog::{FoundSkill, SkillFiles};
use skill_format::SkillInput;
use skill_policy::{
    POLICY_FILE, PolicyFinder, RuleSelection, SETTINGS_FILE, SuppressedFinding, SuppressionOrigin,
};
use skill_rules::{CheckScope, Finding, SkillDocument};
use skillhost_files::{ReplaceError, replace_file, write_new_file};
use skillhost_terminal::{CliContext, CliError, CommandResult, exit};

use self::catalog::CrossSkillLinter;
use self::file_findings::FileFindings;
use self::fix::fix_file;
use super::batch::{BatchItem, BatchSummary, first_path, for_each_chosen, worst_exit_code};
use super::line_diff::diff_lines;
use super::policy_run::{PolicyRun, ScopedRules, policy_error, selection_error};
use super::recorded::Recorder;
use super::report::{CheckedSkill, FindingsReport, FixRecord, SidecarReport, resolve_format};
use super::rules::print_rule_page;
use crate::arguments::{LintArgs, ReportFormat};

/// The policy that `--init` creates.
const NEW_POLICY: &str = include_str!("../templates/skillhost-lint.toml");

pub(super) fn cmd_skill_lint(session: &CliContext, args: &LintArgs) -> CommandResult {
    if let Some(rule) = &args.explain {
        return print_rule_page(session, rule);
    }
    if args.init {
        return create_policy(session);
    }
    let policies = start_policies(session, args)?;
    let profile = policies.profile_of(first_path(&args.paths))?;
    let format = resolve_format(session, args.format, args.jsonl, profile)?;
    if format == ReportFormat::Reference {
        return Err(CliError::usage("the reference validator has no lint")
            .with_hint("`skillhost skill validate` has its form"));
    }
    if args.watch {
        return watch::watch_skills(session, args, format);
    }
    let report = FindingsReport::with_rule_totals(session.output, format, profile);
    lint_skills(session, args, &policies, report, None)
}

/// Checks the skills of a command line and reports their findings. They are also added to `kept`.
fn lint_skills(
    session: &CliContext,
    args: &LintArgs,
    policies: &PolicyRun,
    mut report: FindingsReport,
    mut kept: Option<&mut FileFindings>,
) -> CommandResult {
    let mut catalog = CrossSkillLinter::default();
    let mut failed = exit::OK;
    let recorder = Recorder::new(session);
    let batch = for_each_chosen(session, &args.paths, policies, |item| match item {
        BatchItem::Problem(problem) if report.is_per_skill() => catalog.buffer_problem(problem),
        BatchItem::Problem(problem) => {
            if let Some(kept) = &mut kept {
                kept.add_problem(problem);
            }
            report.add_problem(problem)
        }
        BatchItem::Skill(skill, mut files) => {
            let current = policies.current();
            let mut fix_record = FixRecord::Unrequested;
            if args.fix {
                match fix(skill, &mut files, &current, &recorder, args.dry_run) {
                    Ok(done) => fix_record = done,
                    Err(error) => {
                        failed = worst_exit_code(failed, error.code());
                        report.add_failure(&error)?;
                    }
                }
            }
            let input = input(skill, &files);
            let subject = SkillDocument::new(&input, current.rules.options().profile);
            let (mut findings, mut suppressed) = check(&current, skill, &subject);
            let mut sidecars = check_sidecars(&current, skill, &mut suppressed);
            if report.is_per_skill() {
                findings.extend(sidecars.drain(..).flat_map(SidecarReport::into_findings));
            }
            if let Some(kept) = &mut kept {
                kept.add_skill(skill.path(), findings.clone(), files.bytes.clone());
                sidecars.iter().for_each(|sidecar| kept.add_sidecar(sidecar.clone()));
            }
            let properties = report.properties(&subject)?;
            let checked = CheckedSkill {
                path: &skill.path(),
                dir: &skill.dir,
                bytes: &files.bytes,
                findings: &findings,
                properties: properties.as_deref(),
                suppressed: &suppressed,
                fix: &fix_record,
            };
            catalog.add(&subject, &checked, current);
            if report.is_per_skill() {
                return catalog.buffer_skill(&checked);
            }
            report.add_skill(&checked)?;
            report.add_sidecars(&sidecars, &skill.dir, checked.is_valid())
        }
    })?;
    let late = catalog.report_all(&mut report)?;
    if let Some(kept) = kept {
        kept.add_late(late);
    }
    report_unused_ignores(policies, &mut report)?;
    finish(report, policies, &batch, failed)
}

fn finish(
    report: FindingsReport,
    policies: &PolicyRun,
    batch: &BatchSummary,
    mut failed: u8,
) -> CommandResult {
    let summary = report.finish_with_excluded(policies.excluded())?;
    if summary.errors > 0 || summary.warnings > 0 || summary.would_fix > 0 {
        failed = worst_exit_code(failed, exit::FINDINGS);
    }
    Ok(worst_exit_code(batch.code, failed))
}

/// Resolves the rules of the command line and starts the search for policies.
fn start_policies(session: &CliContext, args: &LintArgs) -> Result<PolicyRun, CliError> {
    let selection = RuleSelection::new(&args.select, &args.ignore);
    let selection = selection.map_err(|error| selection_error(&error))?;
    PolicyRun::new(session, &args.policy, CheckScope::Lint, selection)
}

/// Returns the findings of a skill, and those that comments and the policy suppress.
fn check(
    current: &ScopedRules,
    skill: &FoundSkill,
    subject: &SkillDocument<'_>,
) -> (Vec<Finding>, Vec<SuppressedFinding>) {
    let checked = current.rules.check(subject);
    let mut findings = checked.findings;
    let by_comment = checked.suppressed.into_iter().map(|found| SuppressedFinding {
        diagnostic: found.diagnostic,
        origin: SuppressionOrigin::Comment,
    });
    let mut suppressed: Vec<_> = by_comment.collect();
    suppressed.extend(current.scope.split_findings(&skill.dir, &skill.file_name, &mut findings));
    (findings, suppressed)
}

/// Checks the files next to a SKILL.md; findings that the policy ignores join the suppressed ones.
fn check_sidecars(
    current: &ScopedRules,
    skill: &FoundSkill,
    suppressed: &mut Vec<SuppressedFinding>,
) -> Vec<SidecarReport> {
    let mut sidecars = SidecarReport::check_all(&skill.dir, &skill.dir_name, &current.rules);
    for sidecar in &mut sidecars {
        let findings = sidecar.findings_mut();
        suppressed.extend(current.scope.split_findings(&skill.dir, &skill.file_name, findings));
    }
    sidecars.retain_mut(|sidecar| !sidecar.findings_mut().is_empty());
    sidecars
}

/// Reports the entries of policies that ignored nothing, at their place in the policy.
fn report_unused_ignores(
    policies: &PolicyRun,
    report: &mut FindingsReport,
) -> Result<(), CliError> {
    for (policy, findings) in policies.unused_ignores() {
        let checked = CheckedSkill {
            path: policy.path(),
            dir: policy.path(),
            bytes: policy.text().as_bytes(),
            findings: &findings,
            properties: None,
            suppressed: &[],
            fix: FixRecord::NONE,
        };
        report.add_findings(&checked, false)?;
    }
    Ok(())
}

fn input<'a>(skill: &'a FoundSkill, files: &'a SkillFiles) -> SkillInput<'a> {
    SkillInput {
        dir_name: &skill.dir_name,
        file_name: Some(&files.file_name),
        bytes: &files.bytes,
        files: files.files.as_deref(),
    }
}

/// Fixes a skill's file on disk, or only plans it. On error, the file is unchanged.
fn fix(
    skill: &FoundSkill,
    files: &mut SkillFiles,
    current: &ScopedRules,
    recorder: &Recorder<'_>,
    is_dry_run: bool,
) -> Result<FixRecord, CliError> {
    let rules = current.scope.rules_to_fix(&current.rules, &skill.dir, &skill.file_name);
    let Some((bytes, count)) = fix_file(&input(skill, files), &rules) else {
        return Ok(if is_dry_run { FixRecord::Unrequested } else { FixRecord::Applied(0) });
    };
    if is_dry_run {
        let [before, after] = [&files.bytes, &bytes].map(|bytes| String::from_utf8_lossy(bytes));
        return Ok(FixRecord::Planned { count, diff: diff_lines(&before, &after) });
    }
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
    Ok(FixRecord::Applied(count))
}

/// Creates a policy in the working directory.
fn create_policy(session: &CliContext) -> CommandResult {
    let directory = &session.environment.current_dir;
    let path = directory.join(POLICY_FILE);
    let present = PolicyFinder::new(directory).find(directory).map_err(policy_error)?;
    if present.policy().is_some_and(|it| it.path() == std::path::Path::new(SETTINGS_FILE)) {
        let message = format!("{SETTINGS_FILE} has a policy: its table `lint`");
        return Err(CliError::new(exit::CONFLICT, message).with_hint("edit it, or remove it first"));
    }
    write_new_file(&path, NEW_POLICY.as_bytes(), None).map_err(|error| {
        let failed = CliError::io(std::path::Path::new(POLICY_FILE), &error);
        if failed.code() == exit::CONFLICT {
            failed.with_hint("edit it, or remove it first")
        } else {
            failed
        }
    })?;
    if session.output.json {
        session.output.print_json(&serde_json::json!({ "policy": path }))?;
    } else {
        session.output.print_line(format!("created {POLICY_FILE}"))?;
    }
    Ok(exit::OK)
}
