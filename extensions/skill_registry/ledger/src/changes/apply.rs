//! Changes of a skill's files that lose no data after a crash or a concurrent edit.
//!
//! 1. One transaction records the decision, the texts and an intent that names every file with its
//!    digest before and after.
//! 2. Each file is replaced if it still has the digest before; see [`crate::files::swap`].
//! 3. One transaction records the version and closes the intent.
//! 4. Running registries are notified.
//!
//! A process that dies in between leaves the intent open. The next process that opens the ledger
//! repeats steps 2 to 4, which by the digests does only the missing part.

use skill_catalog::{Advice, NextStep};
use std::collections::HashMap;
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde_json::json;
use skill_format::Digest;
use skillhost_files::jail::{JailError, RelPath};

use crate::files::place::SkillDirectory;
use crate::files::place::jail_error;
use crate::files::swap::remove_temporary_files;
use crate::files::swap::{FileSwap, SwapOutcome, SwapTarget};
use crate::files::tree::{self, CapturedTree};
use crate::proposals::propose::to_proposal_event;
use crate::records::error::{LedgerError, LedgerErrorKind};
use crate::records::event::{LedgerEvent, VersionEvent};
use crate::records::proposal::ProposalState;
use crate::records::version::{VersionAuthor, VersionFile};
use crate::session::{LedgerSession, LedgerWork};
use crate::sqlite::{ChangeIntent, IntentFile, NewAuditEntry, NewVersion};

/// A change that was made and recorded.
#[derive(Clone, Debug)]
pub(crate) struct CommittedChange {
    pub(crate) version: u64,
    pub(crate) tree: Digest,
    pub(crate) events: Vec<LedgerEvent>,
}

/// The contents of a change, by digest.
type ContentMap = HashMap<Digest, Arc<[u8]>>;

impl ChangeIntent {
    fn skill_directory(&self) -> SkillDirectory {
        SkillDirectory {
            root: self.root.clone(),
            root_path: self.root_path.clone(),
            rel: self.place.clone(),
        }
    }

    /// Returns `true` if the change creates the skill's directory.
    fn makes_skill(&self) -> bool {
        self.files.iter().all(|file| file.old.is_none())
    }
}

impl LedgerSession<'_> {
    /// Executes a recorded change and records its result. A change that fails is undone; its
    /// proposal is then stale, or open again.
    pub(crate) fn execute(
        &mut self,
        intent: &ChangeIntent,
    ) -> Result<CommittedChange, LedgerError> {
        // A crashed attempt has left files that would show up in the next version.
        self.remove_temporary_files(intent);
        let (error, conflict) = match self.write_files(intent) {
            Ok(None) => {
                // The intent stays open on purpose: recovery records the version later.
                let written = "; the files are written, which is recorded at the next use";
                return self.finish(intent).map_err(|error| error.with_detail(written));
            }
            Ok(Some(path)) => (conflict_error(intent, &path), true),
            Err(error) => (error, false),
        };
        if let Err(undoing) = self.undo(intent) {
            // The intent stays open, so that recovery can try again.
            let stuck = format!(
                "; the change cannot be undone now ({undoing}) and is completed at the next use"
            );
            return Err(error.with_detail(&stuck));
        }
        let state = if conflict { ProposalState::Stale } else { ProposalState::Open };
        self.abandon(intent, state, &error)?;
        Err(error)
    }

    /// Writes the files of a change that are not written yet; returns the path of the first file
    /// that is neither as before nor as after.
    pub(crate) fn write_files(
        &mut self,
        intent: &ChangeIntent,
    ) -> Result<Option<String>, LedgerError> {
        let contents = self.contents(intent)?;
        let place = intent.skill_directory();
        let failed = |error: &JailError| jail_error(error, &place.path());
        let dir = match place.open(intent.makes_skill()) {
            // A directory that disappeared conflicts with every file; the first one is reported.
            Err(JailError::NotFound) => return Ok(intent.files.first().map(|f| f.path.clone())),
            opened => opened.map_err(|error| failed(&error))?,
        };
        let files = resolve_steps(intent, &contents, &dir)?;
        // All files are compared before the first is written, so that a conflict seldom leaves a
        // half-written skill.
        // Another program may still edit a file between the check and the swap; the swap detects
        // it.
        for (file, step) in intent.files.iter().zip(&files) {
            let found = tree::read_file(&dir, &step.path).map_err(|error| failed(&error))?;
            let found = found.map(|content| Digest::compute(&content));
            if found != file.old && found != file.new {
                return Ok(Some(file.path.clone()));
            }
        }
        for (file, step) in intent.files.iter().zip(&files) {
            let location = place.path().join(&file.path);
            let swapped =
                step.forward().execute().map_err(|error| jail_error(&error, &location))?;
            if swapped == SwapOutcome::Conflict {
                return Ok(Some(file.path.clone()));
            }
        }
        Ok(None)
    }

    /// Restores the old contents of the files that were written; edits by other programs stay.
    pub(crate) fn undo(&mut self, intent: &ChangeIntent) -> Result<(), LedgerError> {
        let contents = self.contents(intent)?;
        let place = intent.skill_directory();
        let dir = match place.open(false) {
            Err(JailError::NotFound) => return Ok(()),
            opened => opened.map_err(|error| jail_error(&error, &place.path()))?,
        };
        let modes = self.modes_before(intent)?;
        let files = resolve_steps(intent, &contents, &dir)?;
        // In reverse order: directories that the change created are empty at the end.
        for (file, step) in intent.files.iter().zip(&files).rev() {
            let location = place.path().join(&file.path);
            if let (None, Some(digest)) = (step.old, file.old) {
                return Err(damaged_content_error(intent, &step.path, digest));
            }
            let mode = modes.get(&file.path).copied().unwrap_or(0);
            step.backward(mode).execute().map_err(|error| jail_error(&error, &location))?;
        }
        if intent.makes_skill() {
            // `remove_dir` fails unless the directory is empty: files of other programs stay.
            let root = Dir::open_ambient_dir(&place.root_path, ambient_authority());
            let _ = root.and_then(|root| root.remove_dir(&place.rel));
        }
        Ok(())
    }

    /// Removes the temporary files that interrupted changes left next to the files of a change.
    pub(crate) fn remove_temporary_files(&self, intent: &ChangeIntent) -> usize {
        let paths: Vec<RelPath> =
            intent.files.iter().filter_map(|file| RelPath::new(&file.path).ok()).collect();
        // A file that cannot be removed now is hidden from versions and removed another time.
        let swept = intent
            .skill_directory()
            .open(false)
            .ok()
            .map(|dir| remove_temporary_files(&dir, paths.iter()));
        swept.and_then(Result::ok).unwrap_or(0)
    }

    fn contents(&mut self, intent: &ChangeIntent) -> Result<ContentMap, LedgerError> {
        self.read(|work| {
            let mut contents = ContentMap::new();
            for file in &intent.files {
                for digest in [file.old, file.new].into_iter().flatten() {
                    // A missing content does not fail here: `resolve_steps` decides whether it is
                    // required.
                    if let Some(content) = work.verified(digest, None)? {
                        contents.insert(digest, content);
                    }
                }
            }
            Ok(contents)
        })
    }

    fn modes_before(&mut self, intent: &ChangeIntent) -> Result<HashMap<String, u32>, LedgerError> {
        self.read(|work| {
            let before = intent.before.map(|seq| work.version_listing(seq)).transpose()?;
            let files = before.unwrap_or_default().into_iter();
            Ok(files.map(|file| (file.path, file.mode)).collect())
        })
    }

    /// Records that the files of a change are written.
    pub(crate) fn finish(&mut self, intent: &ChangeIntent) -> Result<CommittedChange, LedgerError> {
        let finished = self.change(|work| record_applied(work, intent))?;
        self.ledger.touch_generation();
        Ok(finished)
    }

    /// Records that a change was abandoned.
    pub(crate) fn abandon(
        &mut self,
        intent: &ChangeIntent,
        state: ProposalState,
        error: &LedgerError,
    ) -> Result<(), LedgerError> {
        self.change(|work| {
            let mut entry = NewAuditEntry {
                action: "change.abandoned",
                skill_id: Some(&intent.skill_id),
                proposal: intent.proposal.as_deref(),
                detail: json!({"intent": intent.id, "reason": error.to_string()}),
                ..disk_audit_entry()
            };
            let changed = work.append_audit(&entry)?;
            work.close_intent(intent.seq, "abandoned", changed)?;
            let Some(id) = &intent.proposal else { return Ok(()) };
            let mut stored = work.find(id)?;
            stored.proposal.summary.state = state;
            // A failed proposal keeps its decision: the person sees that it was approved.
            if state != ProposalState::Failed {
                stored.proposal.decided = None;
            }
            // Only a stale proposal is an event; the others are seen in the error of the call.
            let event = LedgerEvent::ProposalStale(to_proposal_event(&stored.proposal, ""));
            let (action, event) = match state {
                ProposalState::Stale => ("proposal.stale", Some(&event)),
                ProposalState::Open => ("proposal.reopened", None),
                _ => ("proposal.failed", None),
            };
            (entry.action, entry.event) = (action, event);
            let changed = work.append_audit(&entry)?;
            work.save(&mut stored, changed)
        })
    }

    /// Checks that no interrupted change of a skill is pending.
    pub(crate) fn check_no_pending(&mut self, skill_id: &str) -> Result<(), LedgerError> {
        let pending = self.read(|work| work.pending_intents())?;
        if pending.iter().any(|intent| intent.skill_id == skill_id) {
            return Err(LedgerError::new(
                LedgerErrorKind::Io,
                format!("an interrupted change of `{skill_id}` cannot be completed"),
                "check the disk and the permissions of the skill's files, then try again",
            ));
        }
        Ok(())
    }
}

fn damaged_content_error(intent: &ChangeIntent, path: &RelPath, digest: Digest) -> LedgerError {
    let (what, location) = (
        format!("a change of `{}`", intent.skill_id),
        intent.skill_directory().path().join(path.as_str()),
    );
    LedgerError::damaged_text(&what, &location, digest, "continue with the file as it is")
}

/// A file of a change with its contents.
struct FileStep<'a> {
    dir: &'a Dir,
    path: RelPath,
    file: &'a IntentFile,
    old: Option<&'a [u8]>,
    new: Option<&'a [u8]>,
    token: String,
}

fn resolve_steps<'a>(
    intent: &'a ChangeIntent,
    contents: &'a ContentMap,
    dir: &'a Dir,
) -> Result<Vec<FileStep<'a>>, LedgerError> {
    let content = |digest: Option<Digest>| digest.and_then(|digest| contents.get(&digest));
    let step = |(position, file): (usize, &'a IntentFile)| {
        // Paths were checked when the intent was recorded: only a manipulated database has others.
        let path = RelPath::new(&file.path).map_err(|error| {
            LedgerError::database(
                LedgerErrorKind::Database,
                format!("the database names a file {}: {error}", file.path),
                "report it with this message",
            )
        })?;
        let (old, new) = (content(file.old), content(file.new));
        if let (None, Some(digest)) = (new, file.new) {
            return Err(damaged_content_error(intent, &path, digest));
        }
        // The same name in every attempt, so that a later attempt finds the file of a crashed one.
        let token = format!("{}-{position}", intent.id);
        Ok(FileStep { dir, path, file, old: old.map(|c| &**c), new: new.map(|c| &**c), token })
    };
    intent.files.iter().enumerate().map(step).collect()
}

impl FileStep<'_> {
    fn forward(&self) -> FileSwap<'_> {
        self.swap(self.file.old, self.old, self.new, self.file.mode)
    }

    fn backward(&self, mode: u32) -> FileSwap<'_> {
        self.swap(self.file.new, self.new, self.old, mode)
    }

    fn swap<'s>(
        &'s self,
        old: Option<Digest>,
        before: Option<&'s [u8]>,
        after: Option<&'s [u8]>,
        mode: u32,
    ) -> FileSwap<'s> {
        let new = match after {
            Some(content) => SwapTarget::File { content, mode },
            None => SwapTarget::Absent,
        };
        FileSwap { dir: self.dir, path: &self.path, old, new, before, token: &self.token }
    }
}

/// Records a skill's files as a version unless the last version has the same tree; returns the
/// version's number in the database, if the skill has any version or file.
pub(crate) fn record_version(
    work: &LedgerWork<'_, '_>,
    skill_id: &str,
    place: &SkillDirectory,
    captured: &CapturedTree,
    author: &VersionAuthor,
) -> Result<(Option<u64>, Option<LedgerEvent>), LedgerError> {
    let last = work.version(skill_id, None)?;
    let tree = captured.digest();
    match last {
        Some(last) if last.version.tree == tree => return Ok((Some(last.seq), None)),
        None if captured.files.is_empty() => return Ok((None, None)),
        _ => {}
    }
    work.add_blobs(captured.contents())?;
    let version = NewVersion {
        skill_id,
        author,
        approved_by: None,
        reason: None,
        proposal: None,
        tree,
        files: &captured.files,
        complete: captured.complete,
        root: &place.root,
        place: &place.rel,
    };
    let (_, seq, event) = add_version(work, &version, "", "disk")?;
    Ok((Some(seq), Some(event)))
}

/// Adds a version; returns its number in the skill, its number in the database, and the event.
fn add_version(
    work: &LedgerWork<'_, '_>,
    version: &NewVersion<'_>,
    by: &str,
    via: &str,
) -> Result<(u64, u64, LedgerEvent), LedgerError> {
    let number = work.next_number(version.skill_id)?;
    let event = LedgerEvent::VersionCreated(VersionEvent {
        skill_id: version.skill_id.to_owned(),
        version: number,
        tree: version.tree,
        author: version.author.clone(),
    });
    let changed = work.append_audit(&NewAuditEntry {
        action: "version.created",
        by,
        via,
        skill_id: Some(version.skill_id),
        proposal: version.proposal,
        version: Some(number),
        event: Some(&event),
        detail: json!({"tree": version.tree, "complete": version.complete}),
    })?;
    let seq = work.add_version(version, changed, number)?;
    Ok((number, seq, event))
}

fn record_applied(
    work: &LedgerWork<'_, '_>,
    intent: &ChangeIntent,
) -> Result<CommittedChange, LedgerError> {
    let before = match intent.before {
        Some(seq) => work.version_listing(seq)?,
        None => Vec::new(),
    };
    let complete = work.version(&intent.skill_id, None)?.is_none_or(|last| last.version.complete);
    let before_tree = tree::tree_digest(&before);
    // The version is the recorded state plus the change, not the files on the disk: an edit that
    // came in between must not count as approved.
    let mut files: Vec<VersionFile> = before
        .into_iter()
        .filter(|file| intent.files.iter().all(|changed| changed.path != file.path))
        .collect();
    for IntentFile { path, new, mode, .. } in &intent.files {
        let Some(digest) = *new else { continue };
        let Some(content) = work.verified(digest, None)? else {
            let location = intent.skill_directory().path().join(path);
            let what = format!("a change of `{}`", intent.skill_id);
            let otherwise = "continue with the file as it is";
            return Err(LedgerError::damaged_text(&what, &location, digest, otherwise));
        };
        let (path, size) = (path.clone(), content.len() as u64);
        files.push(VersionFile { path, mode: *mode, size, digest, content });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let tree = tree::tree_digest(&files);
    let version = NewVersion {
        skill_id: &intent.skill_id,
        author: &intent.author,
        approved_by: Some(&intent.by),
        reason: intent.reason.as_deref(),
        proposal: intent.proposal.as_deref(),
        tree,
        files: &files,
        complete,
        root: &intent.root,
        place: &intent.place,
    };
    let (number, _, event) = add_version(work, &version, &intent.by, &intent.via)?;
    let mut events = vec![event];
    if let Some(id) = &intent.proposal {
        let mut stored = work.find(id)?;
        stored.proposal.summary.state = ProposalState::Applied;
        stored.proposal.version = Some(number);
        let event = LedgerEvent::ProposalApplied(to_proposal_event(&stored.proposal, &intent.by));
        let changed = work.append_audit(&NewAuditEntry {
            action: "proposal.applied",
            by: &intent.by,
            via: &intent.via,
            skill_id: Some(&intent.skill_id),
            proposal: Some(id),
            version: Some(number),
            event: Some(&event),
            detail: json!({}),
        })?;
        work.save(&mut stored, changed)?;
        events.push(event);
    }
    let known = |path: &str| match files.iter().find(|file| file.path == path) {
        Some(file) => Some(Some(file.digest)),
        None => complete.then_some(None),
    };
    events.extend(mark_stale(work, &intent.skill_id, &known)?);
    let changed = work.append_audit(&NewAuditEntry {
        action: "change.finished",
        skill_id: Some(&intent.skill_id),
        proposal: intent.proposal.as_deref(),
        version: Some(number),
        detail: json!({"intent": intent.id}),
        ..disk_audit_entry()
    })?;
    work.close_intent(intent.seq, "done", changed)?;
    // The approval of a skill follows a change that a person decided. Only the command line may
    // extend a grant of `allowed-tools`: neither an agent nor an MCP client decides about it.
    match work.created(&intent.skill_id)? {
        Some(mut created) if created.approved == Some(before_tree) => {
            created.approved = Some(tree);
            work.put_created(&created, changed)?;
        }
        None if matches!(&*intent.via, "cli" | "review")
            && work.approval(&intent.skill_id)? == Some(before_tree) =>
        {
            work.put_approval(&intent.skill_id, tree, &intent.by, changed)?;
        }
        Some(_) | None => {}
    }
    Ok(CommittedChange { version: number, tree, events })
}

/// Marks the open proposals of a skill that no longer fit their file. `known` returns the digest of
/// a file, `Some(None)` for a missing file, and `None` if it is not known.
pub(crate) fn mark_stale(
    work: &LedgerWork<'_, '_>,
    skill_id: &str,
    known: &dyn Fn(&str) -> Option<Option<Digest>>,
) -> Result<Vec<LedgerEvent>, LedgerError> {
    let mut events = Vec::new();
    for waiting in work.undecided_proposals(skill_id)? {
        let Some(now) = known(&waiting.path) else { continue };
        if waiting.state != ProposalState::Open || now == waiting.base {
            continue;
        }
        let mut stored = work.find(&waiting.id)?;
        // The file already has the proposed text: a rebase is not required.
        let superseded = now == Some(waiting.new);
        let event = LedgerEvent::ProposalStale(to_proposal_event(&stored.proposal, ""));
        let changed = work.append_audit(&NewAuditEntry {
            action: if superseded { "proposal.superseded" } else { "proposal.stale" },
            skill_id: Some(skill_id),
            proposal: Some(&waiting.id),
            event: (!superseded).then_some(&event),
            detail: json!({"base": waiting.base, "now": now}),
            ..disk_audit_entry()
        })?;
        stored.proposal.summary.state =
            if superseded { ProposalState::Superseded } else { ProposalState::Stale };
        work.save(&mut stored, changed)?;
        if !superseded {
            events.push(event);
        }
    }
    Ok(events)
}

/// Returns an audit entry for a change that was detected on the disk.
pub(crate) fn disk_audit_entry() -> NewAuditEntry<'static> {
    NewAuditEntry { via: "disk", ..NewAuditEntry::default() }
}

/// Creates the error for a file that changed during the operation.
fn conflict_error(intent: &ChangeIntent, path: &str) -> LedgerError {
    let kind = match intent.proposal {
        Some(_) => LedgerErrorKind::Stale,
        None => LedgerErrorKind::Conflict,
    };
    let hint = match &intent.proposal {
        Some(id) => crate::records::error::rebase_advice(&id.to_string()),
        None => Advice::from("inspect the changes with ")
            .with_step(NextStep::ShowHistory)
            .with_text(", then try again"),
    };
    let location = intent.skill_directory().path().join(path);
    let message = format!("{} changed concurrently; it was not overwritten", location.display());
    LedgerError::new(kind, message, hint)
}
