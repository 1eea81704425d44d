//! `--watch`: the checks repeated while files change.
//!
//! Every second the stamps of the skills, of their files and of the policies are compared with those
//! of the last check. No notification of the system is used, so that network and container file
//! systems work as well. Findings that moved within their file are not printed again.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use skill_catalog::{FileSignature, FoundSkill};
use skill_format::{Diagnostic, FileEntry, SKILL_YAML, TOOL_JSON};
use skill_rules::{Finding, Profile, SkillDocument};
use skillhost_terminal::{CliContext, CliError, CommandResult, display_safe, exit};
use tokio::signal::unix::{SignalKind, signal};

use super::super::batch::{BatchFilter, BatchItem, for_each_chosen};
use super::super::policy_run::PolicyRun;
use super::super::report::{CheckedSkill, FindingsReport, FixRecord};
use super::catalog::CrossSkillLinter;
use super::file_findings::FileFindings;
use super::{check, check_sidecars, input, lint_skills, start_policies};
use crate::arguments::{LintArgs, ReportFormat};

/// The time between two comparisons.
const INTERVAL: Duration = Duration::from_secs(1);

/// Everything that a check depends on.
#[derive(Debug, Default, PartialEq, Eq)]
struct WatchedState {
    skills: Vec<SkillStamp>,
    problems: Vec<PathBuf>,
    /// The texts of the policies.
    policies: Vec<String>,
    error: String,
}

/// The stamps of a skill: of its SKILL.md, of its `skill.yaml` and of the list of its files.
type SkillStamp = (PathBuf, FileSignature, [Option<std::time::SystemTime>; 2], Vec<FileEntry>);

/// Checks skills until Ctrl-C, and prints first all findings, then the changes.
pub(super) fn watch_skills(
    session: &CliContext,
    args: &LintArgs,
    format: ReportFormat,
) -> CommandResult {
    if format != ReportFormat::Human {
        return Err(
            CliError::usage("--watch conflicts with --json").with_hint("leave out one of them")
        );
    }
    // Registered once: a signal that arrives during a check ends the next pause.
    let mut interrupt = session.block_on(Box::pin(async { signal(SignalKind::interrupt()) }))??;
    let mut last = read_state(session, args);
    let policies = start_policies(session, args)?;
    // Those of the report itself: an edit during it differs from the state above.
    let mut known = FileFindings::default();
    let report = FindingsReport::with_rule_totals(session.output, format, Profile::default());
    lint_skills(session, args, &policies, report, Some(&mut known))?;
    session.output.print_note("checking again when a file changes; Ctrl-C ends");
    loop {
        let pause = async { tokio::time::timeout(INTERVAL, interrupt.recv()).await.is_ok() };
        if session.block_on(Box::pin(pause))? {
            return Ok(exit::INTERRUPTED);
        }
        let state = read_state(session, args);
        if state == last {
            continue;
        }
        last = state;
        match check_all(session, args) {
            Ok(files) => {
                print_changes(session, &known, &files)?;
                known = files;
            }
            // A policy that is being edited is often invalid for a moment.
            Err(error) => session.output.print_error(&error),
        }
    }
}

/// A filter that reads the stamps of skills and chooses none of them.
struct StampCollector<'a> {
    policies: &'a PolicyRun,
    stamps: RefCell<Vec<SkillStamp>>,
}

impl BatchFilter for StampCollector<'_> {
    fn enter(&self, path: &Path) -> Result<(), CliError> {
        self.policies.enter(path)
    }

    fn choose(&self, skill: &FoundSkill) -> Option<bool> {
        if let Some(with_files) = self.policies.choose(skill) {
            let files = with_files.then(|| skill.list_files().ok()).flatten().unwrap_or_default();
            let written = [SKILL_YAML, TOOL_JSON].map(|name| {
                let sidecar = std::fs::metadata(skill.dir.join(name));
                sidecar.and_then(|metadata| metadata.modified()).ok()
            });
            self.stamps.borrow_mut().push((skill.dir.clone(), skill.signature(), written, files));
        }
        None
    }
}

fn read_state(session: &CliContext, args: &LintArgs) -> WatchedState {
    let mut state = WatchedState::default();
    let read = start_policies(session, args).and_then(|policies| {
        let stamps = StampCollector { policies: &policies, stamps: RefCell::default() };
        for_each_chosen(session, &args.paths, &stamps, |item| {
            if let BatchItem::Problem(problem) = item {
                state.problems.push(problem.path.clone());
            }
            Ok(())
        })?;
        state.skills = stamps.stamps.into_inner();
        state.policies = policies.texts();
        Ok(())
    });
    if let Err(error) = read {
        state.error = format!("{} {}", error.message(), error.hints().join(" "));
    }
    state
}

/// Returns the findings of all files of a run.
fn check_all(session: &CliContext, args: &LintArgs) -> Result<FileFindings, CliError> {
    let policies = start_policies(session, args)?;
    let mut catalog = CrossSkillLinter::default();
    let mut all = FileFindings::default();
    for_each_chosen(session, &args.paths, &policies, |item| {
        match item {
            BatchItem::Problem(problem) => all.add_problem(problem),
            BatchItem::Skill(skill, files) => {
                let current = policies.current();
                let input = input(skill, &files);
                let subject = SkillDocument::new(&input, current.rules.options().profile);
                let (findings, mut suppressed) = check(&current, skill, &subject);
                check_sidecars(&current, skill, &mut suppressed)
                    .into_iter()
                    .for_each(|sidecar| all.add_sidecar(sidecar));
                let path = skill.path();
                let checked = CheckedSkill {
                    path: &path,
                    dir: &skill.dir,
                    bytes: &files.bytes,
                    findings: &findings,
                    properties: None,
                    suppressed: &suppressed,
                    fix: FixRecord::NONE,
                };
                catalog.add(&subject, &checked, current);
                drop(subject);
                all.add_skill(path, findings, files.bytes);
            }
        }
        Ok(())
    })?;
    all.add_late(catalog.into_late_findings());
    Ok(all)
}

/// Prints the findings that are new and those that are gone.
fn print_changes(
    session: &CliContext,
    before: &FileFindings,
    after: &FileFindings,
) -> Result<(), CliError> {
    let mut report = FindingsReport::new(session.output, ReportFormat::Human, Profile::default());
    let mut resolved = Vec::new();
    let mut added = 0;
    for path in before.paths_with(after) {
        let (old, _) = before.of_file(path);
        let (new, bytes) = after.of_file(path);
        let findings = without(new, old);
        added += findings.len();
        let (suppressed, fix) = (&[], FixRecord::NONE);
        let dir = path;
        let checked = CheckedSkill {
            path,
            dir,
            bytes,
            findings: &findings,
            properties: None,
            suppressed,
            fix,
        };
        report.add_findings(&checked, false)?;
        resolved.extend(without(old, new).iter().map(|found| {
            let Diagnostic { rule, message, .. } = &found.diagnostic;
            display_safe(&format!("resolved[{rule}]: {}: {message}", path.display()))
        }));
    }
    let left = after.count();
    let summary = format!("{added} new, {} resolved; {left} in all", resolved.len());
    resolved.push(summary);
    report.finish_with_lines(&resolved)
}

/// Returns the findings that another list does not have; the lines may differ.
fn without(findings: &[Finding], others: &[Finding]) -> Vec<Finding> {
    let mut others: Vec<_> = others.iter().collect();
    let is_new = |found: &&Finding| {
        let same = others.iter().position(|other| {
            (other.diagnostic.rule, &other.diagnostic.message)
                == (found.diagnostic.rule, &found.diagnostic.message)
        });
        // Each finding accounts for one of the others.
        same.map(|index| others.swap_remove(index)).is_none()
    };
    findings.iter().filter(is_new).cloned().collect()
}
