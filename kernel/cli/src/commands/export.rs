//! `skillhost export`: skills of the registry in the folder of another client.

mod folder;
mod tree;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use skill_store::{
    ApprovalStatus, Audience, Skill, SkillId, SkillPublisher, Snapshot, Store, TrustLevel,
};

use self::folder::{Folder, Status};
use self::tree::{Change, Source};
use super::skill::stored;
use crate::cli::ExportArgs;
use crate::error::CliError;
use crate::exit;
use crate::output::{DIM, GREEN, Outcome, Output, RED, YELLOW, show};
use crate::session::Session;

/// What became of one skill.
#[derive(Debug, Serialize)]
struct Record {
    skill_id: String,
    status: Told,
    path: PathBuf,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<Change>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// The status of a record, as it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Told {
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
struct Report {
    to: PathBuf,
    ok: bool,
    skills: Vec<Record>,
    left_out: Vec<LeftOut>,
}

/// A skill that was not asked for by name and that nobody answers for.
#[derive(Debug, Serialize)]
struct LeftOut {
    skill_id: String,
    reason: String,
}

pub(super) fn export(session: &Session, args: &ExportArgs) -> Outcome {
    let to = target(session, args)?;
    let store = stored::open(session, &args.roots)?;
    let snapshot = store.snapshot();
    let standing = standing(session, args, &snapshot)?;
    let (chosen, left_out) = choose(args, &snapshot, &standing)?;
    let mut folder = Folder::open(to, args.check)?;
    let publisher = SkillPublisher::new();
    let mut sources = Vec::with_capacity(chosen.len());
    for skill in chosen {
        let source = match args.link {
            true => Source::linked(skill),
            false => Source::copied(&publisher, &store, &snapshot, skill),
        };
        sources.push((skill, source));
    }
    let names: BTreeSet<&str> = sources.iter().map(|(skill, _)| skill.id().as_str()).collect();
    let leftover = if args.ids.is_empty() { folder.others(&names) } else { Vec::new() };
    if !args.check {
        // Before anything is written: what is there after a crash is known to be ours.
        let planned = sources
            .iter()
            .filter_map(|(skill, source)| Some((skill.id().as_str(), source.as_ref().ok()?)));
        folder.claim(planned)?;
    }
    let mut skills = Vec::new();
    for (skill, source) in sources {
        skills.push(match source {
            Ok(source) => one(&folder, &store, &snapshot, skill, &source, args.check),
            Err(error) => Record::failed(&folder, skill, error.message()),
        });
    }
    if !args.check {
        folder.settle()?;
    }
    let gone = |id: String| Record {
        path: folder.path(&id),
        skill_id: id,
        status: Told::Leftover,
        changes: Vec::new(),
        message: None,
    };
    skills.extend(leftover.into_iter().map(gone));
    let code = code(&skills, args.check);
    let report = Report { to: folder.into_path(), ok: code == exit::OK, skills, left_out };
    print(session.output, &report)?;
    Ok(code)
}

/// Finds the folder that is meant.
fn target(session: &Session, args: &ExportArgs) -> Result<PathBuf, CliError> {
    let environment = &session.environment;
    let below = match args.to.as_str() {
        "claude" => ".claude/skills",
        "codex" | "gemini" => ".agents/skills",
        _ if args.user => {
            return Err(CliError::usage("--user goes with claude, codex or gemini")
                .hint("a folder is named whole: --to DIR"));
        }
        dir => {
            // `./out` is shown as `out`.
            let folder: PathBuf = environment.current_dir.join(dir).components().collect();
            if is_bare_name(dir) && !folder.is_dir() {
                return Err(CliError::usage(format!("`{dir}` is neither a client nor a folder"))
                    .hint(format!(
                        "the clients are claude, codex and gemini; a new folder is --to ./{dir}"
                    )));
            }
            return Ok(folder);
        }
    };
    if !args.user {
        return Ok(environment.current_dir.join(below));
    }
    let home = environment.user_home.as_ref().ok_or_else(|| {
        CliError::new(exit::NOT_FOUND, "HOME is not set").hint("name the folder: --to DIR")
    })?;
    Ok(PathBuf::from(home).join(below))
}

/// Tells whether this is one name, as that of a client is.
fn is_bare_name(dir: &str) -> bool {
    !dir.contains(std::path::is_separator) && !matches!(dir, "" | "." | "..")
}

/// Asks the ledger whose the skills are; in roots named on the command line, nobody's but the
/// operator's.
fn standing(
    session: &Session,
    args: &ExportArgs,
    snapshot: &Snapshot,
) -> Result<HashMap<SkillId, ApprovalStatus>, CliError> {
    if !args.roots.roots.is_empty() {
        return Ok(HashMap::new());
    }
    let ledger = stored::ledger(&session.home()?);
    let standing = ledger.approval_statuses(snapshot);
    for note in ledger.take_notes() {
        session.output.note(note);
    }
    Ok(standing?)
}

/// Picks the skills; says which were left out because nobody answers for them.
fn choose<'s>(
    args: &ExportArgs,
    snapshot: &'s Snapshot,
    standing: &HashMap<SkillId, ApprovalStatus>,
) -> Result<(Vec<&'s Arc<Skill>>, Vec<LeftOut>), CliError> {
    let doubt = |skill: &Skill| {
        let id = skill.id().as_str();
        if args.allow.iter().any(|allowed| allowed == id) {
            return None;
        }
        if let Some(standing) = standing.get(skill.id()).filter(|standing| !standing.approved) {
            let author = standing.author.name();
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
                    left_out.push(LeftOut { skill_id: skill.id().to_string(), reason });
                }
            }
        }
        return Ok((chosen, left_out));
    }
    for id in args.ids.iter().collect::<BTreeSet<_>>() {
        let skill =
            snapshot.get(id).filter(|skill| skill.id().as_str() == id).ok_or_else(|| {
                let similar = snapshot.similar(id, Audience::Operator);
                let hint = match similar.as_slice() {
                    [] => "`skillhost skill list` shows what there is".to_owned(),
                    similar => format!("did you mean `{}`?", similar.join("` or `")),
                };
                CliError::new(exit::NOT_FOUND, format!("there is no skill `{id}`")).hint(hint)
            })?;
        if let Some(reason) = doubt(skill) {
            return Err(CliError::new(exit::IO, format!("`{id}` is {reason}"))
                .hint(format!("look at its files; then, if you answer for them: --allow {id}")));
        }
        chosen.push(skill);
    }
    Ok((chosen, left_out))
}

/// Looks at one skill in the folder and, unless only asked to look, brings it up to date.
fn one(
    folder: &Folder,
    store: &Store,
    snapshot: &Snapshot,
    skill: &Skill,
    source: &Source,
    check: bool,
) -> Record {
    let id = skill.id().as_str();
    let found = match folder.look(id) {
        Ok(found) => found,
        Err(error) => return Record::failed(folder, skill, &error.to_string()),
    };
    let status = folder.status(id, &found, source);
    let record = |status: Told| Record {
        skill_id: id.to_owned(),
        status,
        path: folder.path(id),
        changes: if check { found.changes(source) } else { Vec::new() },
        message: None,
    };
    match status {
        Status::Current => Record { changes: Vec::new(), ..record(Told::Current) },
        Status::Missing if check => Record { changes: Vec::new(), ..record(Told::Missing) },
        Status::Outdated if check => record(Told::Outdated),
        Status::Missing | Status::Outdated => {
            let written = match source {
                Source::Copy(files) => folder.copy(store, snapshot, id, files, &found),
                Source::Link(target) => folder.link(id, target, &found),
            };
            match (written, status) {
                (Err(error), _) => Record::failed(folder, skill, error.message()),
                (Ok(()), Status::Missing) => record(Told::Written),
                (Ok(()), _) => record(Told::Updated),
            }
        }
        Status::Edited => {
            let message = "it changed since it was exported; move it away and export again";
            Record { message: Some(message.to_owned()), ..record(Told::Edited) }
        }
        Status::Foreign => {
            let message = "it was not written by export; move it away and export again";
            Record { message: Some(message.to_owned()), ..record(Told::Foreign) }
        }
    }
}

impl Record {
    fn failed(folder: &Folder, skill: &Skill, message: &str) -> Self {
        Self {
            skill_id: skill.id().to_string(),
            status: Told::Failed,
            path: folder.path(skill.id().as_str()),
            changes: Vec::new(),
            message: Some(message.to_owned()),
        }
    }
}

fn code(skills: &[Record], check: bool) -> u8 {
    let any = |told: &[Told]| skills.iter().any(|record| told.contains(&record.status));
    if any(&[Told::Failed]) {
        exit::IO
    } else if check {
        let fine = skills.iter().all(|record| record.status == Told::Current);
        if fine { exit::OK } else { exit::FINDINGS }
    } else if any(&[Told::Edited, Told::Foreign]) {
        exit::CONFLICT
    } else {
        exit::OK
    }
}

fn print(output: Output, report: &Report) -> Result<(), CliError> {
    if output.json {
        return output.object(report);
    }
    let mut current = 0;
    for record in &report.skills {
        let id = show(&record.skill_id);
        let (style, word) = match record.status {
            Told::Current => {
                current += 1;
                continue;
            }
            Told::Written => (GREEN, "written"),
            Told::Updated => (GREEN, "updated"),
            Told::Missing => (YELLOW, "missing"),
            Told::Outdated => (YELLOW, "outdated"),
            Told::Leftover => (YELLOW, "leftover"),
            Told::Edited => (RED, "edited"),
            Told::Foreign => (RED, "foreign"),
            Told::Failed => (RED, "failed"),
        };
        let message = record.message.as_deref().map_or_else(String::new, |m| format!(": {m}"));
        output.line(format!("{style}{word:<9}{style:#}{id}{}", show(&message)))?;
        for change in &record.changes {
            output.line(format!("  {DIM}{}{DIM:#} {}", change.kind.sign(), show(&change.path)))?;
        }
    }
    for left in &report.left_out {
        output.note(format!(
            "`{}` is left out: it is {}; --allow {} exports it",
            left.skill_id, left.reason, left.skill_id
        ));
    }
    let total = report.skills.len();
    let to = show(&report.to.display().to_string());
    output.line(format!("{current} of {total} skills in {to} were up to date"))
}
