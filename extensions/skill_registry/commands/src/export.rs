//! `skillhost skill export`: skills of the registry in the directory of another client.

mod folder;
mod tree;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use skill_catalog::{Audience, Skill, Snapshot, Store, TrustLevel};
use skill_format::SkillId;
use skill_ledger::ApprovalStatus;
use skill_service::SkillPublisher;
use skillhost_terminal::{
    CliContext, CliError, CommandResult, DIM, GREEN, Output, RED, YELLOW, display_safe, exit,
};

use self::folder::{TargetDirectory, TargetStatus};
use self::tree::{ExportSource, FileChange};
use super::home_skills;
use super::wording::registry_error;
use crate::arguments::ExportArgs;

/// The outcome for one skill.
#[derive(Debug, Serialize)]
struct ExportRecord {
    skill_id: String,
    status: ExportStatus,
    path: PathBuf,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<FileChange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// The status of an exported skill in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum ExportStatus {
    Current,
    Written,
    Updated,
    Missing,
    Outdated,
    Edited,
    Foreign,
    Leftover,
    Failed,
}

#[derive(Debug, Serialize)]
struct ExportReport {
    to: PathBuf,
    ok: bool,
    skills: Vec<ExportRecord>,
    left_out: Vec<SkippedSkill>,
}

/// An untrusted skill that was skipped because the command line does not name it.
#[derive(Debug, Serialize)]
struct SkippedSkill {
    skill_id: String,
    reason: String,
}

/// Runs `skill export`.
///
/// # Errors
/// The command failed.
pub fn cmd_export(session: &CliContext, args: &ExportArgs) -> CommandResult {
    let to = target(session, args)?;
    let store = home_skills::open_store(session, &args.roots)?;
    let snapshot = store.snapshot();
    let statuses = approval_statuses(session, args, &snapshot)?;
    let (chosen, left_out) = select_skills(args, &snapshot, &statuses)?;
    let mut folder = TargetDirectory::open(to, args.check)?;
    let publisher = SkillPublisher::new();
    let mut sources = Vec::with_capacity(chosen.len());
    for skill in chosen {
        let source = match args.symlink {
            true => ExportSource::link_to(skill),
            false => ExportSource::copy_of(&publisher, &store, &snapshot, skill),
        };
        sources.push((skill, source));
    }
    let names: BTreeSet<&str> = sources.iter().map(|(skill, _)| skill.id().as_str()).collect();
    let leftover = if args.ids.is_empty() { folder.stale_exports(&names) } else { Vec::new() };
    if !args.check {
        // Recorded before anything is written: after a crash the next export recognizes its own
        // files.
        let planned = sources
            .iter()
            .filter_map(|(skill, source)| Some((skill.id().as_str(), source.as_ref().ok()?)));
        folder.record_planned(planned)?;
    }
    let mut skills = Vec::new();
    for (skill, source) in sources {
        skills.push(match source {
            Ok(source) => export_skill(&folder, &store, &snapshot, skill, &source, args.check),
            Err(error) => ExportRecord::from_error(&folder, skill, error.message()),
        });
    }
    if !args.check {
        folder.record_written()?;
    }
    let gone = |id: String| ExportRecord {
        path: folder.path(&id),
        skill_id: id,
        status: ExportStatus::Leftover,
        changes: Vec::new(),
        message: None,
    };
    skills.extend(leftover.into_iter().map(gone));
    let code = code(&skills, args.check);
    let report = ExportReport { to: folder.into_path(), ok: code == exit::OK, skills, left_out };
    print(session.output, &report)?;
    Ok(code)
}

/// Returns the target directory.
fn target(session: &CliContext, args: &ExportArgs) -> Result<PathBuf, CliError> {
    let environment = &session.environment;
    let below = match args.to.as_str() {
        "claude" => ".claude/skills",
        "codex" | "gemini" => ".agents/skills",
        _ if args.is_user_scope() => {
            return Err(CliError::usage("--scope user requires claude, codex or gemini")
                .with_hint("pass the path of the directory: --to DIR"));
        }
        dir => {
            // `components` drops the leading `.`: `./out` is displayed as `out`.
            let folder: PathBuf = environment.current_dir.join(dir).components().collect();
            if is_bare_name(dir) && !folder.is_dir() {
                return Err(CliError::usage(format!(
                    "`{dir}` is not a client or an existing directory"
                ))
                .with_hint(format!(
                    "the clients are claude, codex and gemini; a new directory is --to ./{dir}"
                )));
            }
            return Ok(folder);
        }
    };
    if !args.is_user_scope() {
        return Ok(environment.current_dir.join(below));
    }
    let home = environment.user_home.as_ref().ok_or_else(|| {
        CliError::new(exit::NOT_FOUND, "HOME is not set")
            .with_hint("pass the path of the directory: --to DIR")
    })?;
    Ok(PathBuf::from(home).join(below))
}

/// Returns whether the argument is a single name, as that of a client is.
fn is_bare_name(dir: &str) -> bool {
    !dir.contains(std::path::is_separator) && !matches!(dir, "" | "." | "..")
}

/// Loads the approval status of the skills from the ledger. Skills in roots from the command line
/// have none.
fn approval_statuses(
    session: &CliContext,
    args: &ExportArgs,
    snapshot: &Snapshot,
) -> Result<HashMap<SkillId, ApprovalStatus>, CliError> {
    if !args.roots.roots.is_empty() {
        return Ok(HashMap::new());
    }
    let ledger = home_skills::open_ledger(&session.home()?);
    let statuses = ledger.approval_statuses(snapshot);
    for note in ledger.take_notes() {
        session.output.print_note(note);
    }
    statuses.map_err(registry_error)
}

/// Selects the skills; returns the untrusted ones that were skipped, too.
fn select_skills<'s>(
    args: &ExportArgs,
    snapshot: &'s Snapshot,
    statuses: &HashMap<SkillId, ApprovalStatus>,
) -> Result<(Vec<&'s Arc<Skill>>, Vec<SkippedSkill>), CliError> {
    let doubt = |skill: &Skill| {
        let id = skill.id().as_str();
        if args.allow_untrusted.iter().any(|allowed| allowed == id) {
            return None;
        }
        if let Some(status) = statuses.get(skill.id()).filter(|status| !status.approved) {
            let author = status.author.name();
            return Some(format!("created by {author} and not approved as it is"));
        }
        (skill.trust() == TrustLevel::Untrusted)
            .then(|| format!("in the untrusted root `{}`", skill.source()))
    };
    let mut left_out = Vec::new();
    let mut chosen = Vec::new();
    if args.ids.is_empty() {
        for skill in snapshot.visible(Audience::Model) {
            match doubt(skill) {
                None => chosen.push(skill),
                Some(reason) => {
                    left_out.push(SkippedSkill { skill_id: skill.id().to_string(), reason });
                }
            }
        }
        return Ok((chosen, left_out));
    }
    let ids = args.ids.iter().map(|id| home_skills::resolve_skill(snapshot, id));
    for id in &ids.collect::<Result<BTreeSet<String>, CliError>>()? {
        let skill =
            snapshot.get(id).filter(|skill| skill.id().as_str() == id).ok_or_else(|| {
                let similar = snapshot.similar(id, Audience::Operator);
                let hint = match similar.as_slice() {
                    [] => "`skillhost skill list` shows what there is".to_owned(),
                    similar => format!("did you mean `{}`?", similar.join("` or `")),
                };
                CliError::new(exit::NOT_FOUND, format!("skill `{id}` not found")).with_hint(hint)
            })?;
        if let Some(reason) = doubt(skill) {
            return Err(CliError::new(exit::IO, format!("`{id}` is {reason}")).with_hint(format!(
                "inspect its files; then, if you trust them: --allow-untrusted {id}"
            )));
        }
        chosen.push(skill);
    }
    Ok((chosen, left_out))
}

/// Compares one skill with the target directory and, unless `--check` is set, updates it.
fn export_skill(
    folder: &TargetDirectory,
    store: &Store,
    snapshot: &Snapshot,
    skill: &Skill,
    source: &ExportSource,
    check: bool,
) -> ExportRecord {
    let id = skill.id().as_str();
    let found = match folder.inspect(id) {
        Ok(found) => found,
        Err(error) => return ExportRecord::from_error(folder, skill, &error.to_string()),
    };
    let status = folder.status(id, &found, source);
    let record = |status: ExportStatus| ExportRecord {
        skill_id: id.to_owned(),
        status,
        path: folder.path(id),
        changes: if check { found.changes(source) } else { Vec::new() },
        message: None,
    };
    match status {
        TargetStatus::Current => {
            ExportRecord { changes: Vec::new(), ..record(ExportStatus::Current) }
        }
        TargetStatus::Missing if check => {
            ExportRecord { changes: Vec::new(), ..record(ExportStatus::Missing) }
        }
        TargetStatus::Outdated if check => record(ExportStatus::Outdated),
        TargetStatus::Missing | TargetStatus::Outdated => {
            let written = match source {
                ExportSource::Copy(files) => folder.copy(store, snapshot, id, files, &found),
                ExportSource::Link(target) => folder.link(id, target, &found),
            };
            match (written, status) {
                (Err(error), _) => ExportRecord::from_error(folder, skill, error.message()),
                (Ok(()), TargetStatus::Missing) => record(ExportStatus::Written),
                (Ok(()), _) => record(ExportStatus::Updated),
            }
        }
        TargetStatus::Edited => {
            let message = "it changed since it was exported; move it away and export again";
            ExportRecord { message: Some(message.to_owned()), ..record(ExportStatus::Edited) }
        }
        TargetStatus::Foreign => {
            let message = "it was not written by export; move it away and export again";
            ExportRecord { message: Some(message.to_owned()), ..record(ExportStatus::Foreign) }
        }
    }
}

impl ExportRecord {
    fn from_error(folder: &TargetDirectory, skill: &Skill, message: &str) -> Self {
        Self {
            skill_id: skill.id().to_string(),
            status: ExportStatus::Failed,
            path: folder.path(skill.id().as_str()),
            changes: Vec::new(),
            message: Some(message.to_owned()),
        }
    }
}

fn code(skills: &[ExportRecord], check: bool) -> u8 {
    let any = |wanted: &[ExportStatus]| skills.iter().any(|record| wanted.contains(&record.status));
    if any(&[ExportStatus::Failed]) {
        exit::IO
    } else if check {
        let fine = skills.iter().all(|record| record.status == ExportStatus::Current);
        if fine { exit::OK } else { exit::FINDINGS }
    } else if any(&[ExportStatus::Edited, ExportStatus::Foreign]) {
        exit::CONFLICT
    } else {
        exit::OK
    }
}

fn print(output: Output, report: &ExportReport) -> Result<(), CliError> {
    if output.json {
        return output.print_json(report);
    }
    let mut current = 0;
    for record in &report.skills {
        let id = display_safe(&record.skill_id);
        let (style, word) = match record.status {
            ExportStatus::Current => {
                current += 1;
                continue;
            }
            ExportStatus::Written => (GREEN, "written"),
            ExportStatus::Updated => (GREEN, "updated"),
            ExportStatus::Missing => (YELLOW, "missing"),
            ExportStatus::Outdated => (YELLOW, "outdated"),
            ExportStatus::Leftover => (YELLOW, "leftover"),
            ExportStatus::Edited => (RED, "edited"),
            ExportStatus::Foreign => (RED, "foreign"),
            ExportStatus::Failed => (RED, "failed"),
        };
        let message = record.message.as_deref().map_or_else(String::new, |m| format!(": {m}"));
        output.print_line(format!("{style}{word:<9}{style:#}{id}{}", display_safe(&message)))?;
        for change in &record.changes {
            output.print_line(format!(
                "  {DIM}{}{DIM:#} {}",
                change.kind.symbol(),
                display_safe(&change.path)
            ))?;
        }
    }
    for skipped in &report.left_out {
        output.print_note(format!(
            "`{}` is left out: it is {}; --allow-untrusted {} exports it",
            skipped.skill_id, skipped.reason, skipped.skill_id
        ));
    }
    let total = report.skills.len();
    let to = display_safe(&report.to.display().to_string());
    output.print_line(format!("{current} of {total} skills in {to} were up to date"))
}
