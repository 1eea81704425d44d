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

use std::collections::HashMap;
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde_json::json;
use skill_catalog::{Advice, NextStep};
use skill_format::Digest;
use skillhost_files::jail::{JailError, RelPath};

use crate::changes::record::{add_version, disk_audit_entry, mark_stale};
use crate::files::skill_directory::{SkillDirectory, jail_error};
use crate::files::swap::{FileSwap, SwapOutcome, SwapTarget, remove_temporary_files};
use crate::files::tree;
use crate::records::error::{LedgerError, LedgerErrorKind, rebase_advice};
use crate::records::event::LedgerEvent;
use crate::records::proposal::{HumanActor, ProposalState};
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
    /// Creates the intent of a person to change a skill; what is changed is filled in, and its id and
    /// number when it is recorded.
    pub(crate) fn for_person(
        actor: &HumanActor,
        skill_id: &str,
        place: &SkillDirectory,
        author: VersionAuthor,
    ) -> Self {
        Self {
            seq: 0,
            id: String::new(),
            skill_id: skill_id.to_owned(),
            root: place.root.clone(),
            root_path: place.root_path.clone(),
            place: place.rel.clone(),
            before: None,
            proposal: None,
            by: actor.name.clone(),
            via: actor.via.clone(),
            reason: None,
            author,
            files: Vec::new(),
        }
    }

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
        // The intent has the executable bits after the change alone.
        let modes = self.modes_before(intent)?;
        let files = resolve_steps(intent, &contents, &dir)?;
        // In reverse order: directories that the change created are empty at the end.
        for (file, step) in intent.files.iter().zip(&files).rev() {
            let location = place.path().join(&file.path);
            // Without the old content the file would be removed instead of restored.
            if let (None, Some(digest)) = (step.old, file.old) {
                return Err(damaged_content_error(intent, step.path.as_str(), digest));
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
            let event = LedgerEvent::ProposalStale(stored.proposal.to_event(""));
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

fn damaged_content_error(intent: &ChangeIntent, path: &str, digest: Digest) -> LedgerError {
    let what = format!("a change of `{}`", intent.skill_id);
    let location = intent.skill_directory().path().join(path);
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
            return Err(damaged_content_error(intent, path.as_str(), digest));
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

/// Records the version that a change made, and everything that follows from it.
fn record_applied(
    work: &LedgerWork<'_, '_>,
    intent: &ChangeIntent,
) -> Result<CommittedChange, LedgerError> {
    let before = match intent.before {
        Some(seq) => work.version_listing(seq)?,
        None => Vec::new(),
    };
    // What an incomplete version left out is still on the disk, and still not recorded.
    let complete = work.version(&intent.skill_id, None)?.is_none_or(|last| last.version.complete);
    let before_tree = tree::tree_digest(&before);
    let files = files_after(work, intent, before)?;
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
        events.push(record_proposal_applied(work, intent, id, number)?);
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
    extend_approval(work, intent, (before_tree, tree), changed)?;
    Ok(CommittedChange { version: number, tree, events })
}

/// Returns the files of the version that a change makes: the recorded ones with the change, not
/// those on the disk, because an edit that came in between must not count as approved.
fn files_after(
    work: &LedgerWork<'_, '_>,
    intent: &ChangeIntent,
    before: Vec<VersionFile>,
) -> Result<Vec<VersionFile>, LedgerError> {
    let mut files: Vec<VersionFile> = before
        .into_iter()
        .filter(|file| intent.files.iter().all(|changed| changed.path != file.path))
        .collect();
    for IntentFile { path, new, mode, .. } in &intent.files {
        let Some(digest) = *new else { continue };
        let Some(content) = work.verified(digest, None)? else {
            return Err(damaged_content_error(intent, path, digest));
        };
        let (path, size) = (path.clone(), content.len() as u64);
        files.push(VersionFile { path, mode: *mode, size, digest, content });
    }
    // The digest of a tree is defined on this order.
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Records that a proposal resulted in a version; returns the event.
fn record_proposal_applied(
    work: &LedgerWork<'_, '_>,
    intent: &ChangeIntent,
    id: &str,
    number: u64,
) -> Result<LedgerEvent, LedgerError> {
    let mut stored = work.find(id)?;
    stored.proposal.summary.state = ProposalState::Applied;
    stored.proposal.version = Some(number);
    let event = LedgerEvent::ProposalApplied(stored.proposal.to_event(&intent.by));
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
    Ok(event)
}

/// Extends the approval of a skill's tree before a change to the tree after it.
fn extend_approval(
    work: &LedgerWork<'_, '_>,
    intent: &ChangeIntent,
    (before, after): (Digest, Digest),
    changed: u64,
) -> Result<(), LedgerError> {
    // The approval of a skill follows a change that a person decided. Only the command line may
    // extend a grant of `allowed-tools`: neither an agent nor an MCP client decides about it.
    match work.created(&intent.skill_id)? {
        Some(mut created) if created.approved == Some(before) => {
            created.approved = Some(after);
            work.put_created(&created, changed)
        }
        None if matches!(&*intent.via, "cli" | "review")
            && work.approval(&intent.skill_id)? == Some(before) =>
        {
            work.put_approval(&intent.skill_id, after, &intent.by, changed)
        }
        Some(_) | None => Ok(()),
    }
}

/// Creates the error for a file that changed during the operation.
fn conflict_error(intent: &ChangeIntent, path: &str) -> LedgerError {
    let kind = match intent.proposal {
        Some(_) => LedgerErrorKind::Stale,
        None => LedgerErrorKind::Conflict,
    };
    let hint = match &intent.proposal {
        Some(id) => rebase_advice(id),
        None => Advice::from("inspect the changes with ")
            .with_step(NextStep::ShowHistory)
            .with_text(", then try again"),
    };
    let location = intent.skill_directory().path().join(path);
    let message = format!("{} changed concurrently; it was not overwritten", location.display());
    LedgerError::new(kind, message, hint)
}
