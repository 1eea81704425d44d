//! History of a skill, and rollback to an earlier version.

use std::path::Path;

use serde_json::json;
use skill_catalog::{Advice, NextStep, Snapshot, suggest_similar};

use crate::changes::record::record_version;
use crate::files::skill_directory::{SkillDirectory, find_skill, require_skill};
use crate::files::tree::{CapturedTree, read_tree};
use crate::ledger::Ledger;
use crate::records::error::{LedgerError, LedgerErrorKind};
use crate::records::event::LedgerEvent;
use crate::records::limits::check_reason;
use crate::records::proposal::{ApplyOutcome, HumanActor};
use crate::records::version::{SkillVersion, VersionAuthor, VersionFile, VersionTree};
use crate::session::{LedgerSession, LedgerWork};
use crate::sqlite::{ChangeIntent, IntentFile, NewAuditEntry, StoredVersion};

impl Ledger {
    /// Lists the versions of a skill, the oldest first. A direct edit since the last version is
    /// recorded first if the ledger can be written.
    ///
    /// # Errors
    /// [`LedgerErrorKind::NotFound`] for a skill that neither exists nor has versions; those of the
    /// disk and the database.
    pub fn history(
        &self,
        snapshot: &Snapshot,
        skill_id: &str,
    ) -> Result<Vec<SkillVersion>, LedgerError> {
        let versions = self.with_or_peek(|session| {
            session.restore_texts(snapshot)?;
            if let Some(skill) = find_skill(snapshot, skill_id)?.filter(|_| !session.peeks) {
                session.record_edit(skill_id, &SkillDirectory::for_skill(skill))?;
            }
            session.read(|work| work.versions(skill_id))
        })?;
        // A deleted skill keeps its versions; only one without any has to exist.
        if versions.is_empty() {
            require_skill(snapshot, skill_id)?;
        }
        Ok(versions.into_iter().map(|stored| stored.version).collect())
    }

    /// Returns a version of a skill with its files; the last version if `number` is `None`.
    ///
    /// # Errors
    /// [`LedgerErrorKind::NotFound`] if the version does not exist, [`LedgerErrorKind::Corrupt`] if
    /// a stored text is damaged and no copy of it is found; those of the disk and the database.
    pub fn version(&self, skill_id: &str, number: Option<u64>) -> Result<VersionTree, LedgerError> {
        let found = self.with_existing_session(|session| {
            session.read(|work| {
                let stored = find_version(work, skill_id, number)?;
                let files = load_files(work, skill_id, &stored, None)?;
                Ok(Some(VersionTree { version: stored.version, files }))
            })
        })?;
        found.ok_or_else(|| version_not_found(skill_id, number, Vec::new()))
    }

    /// Restores a skill's files from a version, the one before the last if `number` is `None`; this
    /// creates a new version. A direct edit is recorded first.
    ///
    /// # Errors
    /// [`LedgerErrorKind::NotFound`] for an unknown skill or version, [`LedgerErrorKind::State`] if
    /// the skill already equals it, [`LedgerErrorKind::Conflict`] if a file changed concurrently,
    /// [`LedgerErrorKind::Corrupt`] if a stored text is damaged and no copy of it is found; those
    /// of the disk and the database.
    pub fn rollback(
        &self,
        snapshot: &Snapshot,
        actor: &HumanActor,
        skill_id: &str,
        number: Option<u64>,
        reason: Option<&str>,
    ) -> Result<ApplyOutcome, LedgerError> {
        check_reason("the reason", reason.unwrap_or_default())?;
        self.with_session(|session| {
            session.restore_texts(snapshot)?;
            session.check_no_pending(skill_id)?;
            let place = session.find_directory(snapshot, skill_id)?;
            let captured = read_tree(&place)?;
            let request = RollbackRequest { actor, skill_id, number, reason };
            let (intent, edited) =
                session.change(|work| request.record(work, &place, &captured))?;
            // Outside of the transaction: the intent has to survive a crash while files are written.
            let finished = session.execute(&intent)?;
            let events = edited.into_iter().chain(finished.events).collect();
            Ok(ApplyOutcome {
                skill_id: intent.skill_id,
                proposal: None,
                version: finished.version,
                tree: finished.tree,
                files: intent.files.into_iter().map(|file| file.path).collect(),
                events,
            })
        })
    }
}

/// The request to restore the files of a version.
struct RollbackRequest<'a> {
    actor: &'a HumanActor,
    skill_id: &'a str,
    number: Option<u64>,
    reason: Option<&'a str>,
}

impl RollbackRequest<'_> {
    /// Records a direct edit, if there was one, and the intent to restore the files.
    fn record(
        &self,
        work: &LedgerWork<'_, '_>,
        place: &SkillDirectory,
        captured: &CapturedTree,
    ) -> Result<(ChangeIntent, Option<LedgerEvent>), LedgerError> {
        let Self { actor, skill_id, number, reason } = *self;
        let external = VersionAuthor::External;
        let (before, edited) = record_version(work, skill_id, place, captured, &external)?;
        let target = rollback_target(work, skill_id, number)?;
        let wanted = load_files(work, skill_id, &target, Some(captured))?;
        // Repairs damaged texts whose copy was found, before the intent refers to them.
        work.add_blobs(wanted.iter().map(|file| (file.digest, &*file.content)))?;
        let files = changed_files(captured, &target, &wanted);
        if files.is_empty() {
            return Err(LedgerError::new(
                LedgerErrorKind::State,
                format!("`{skill_id}` already equals version {}", target.version.number),
                Advice::from(NextStep::ShowHistory).with_text(" lists the versions"),
            ));
        }
        let to = format!("rolled back to version {}", target.version.number);
        let author = VersionAuthor::Person { name: actor.name.clone() };
        let mut intent = ChangeIntent {
            before,
            reason: Some(reason.map_or(to.clone(), |reason| format!("{to}: {reason}"))),
            files,
            ..ChangeIntent::for_person(actor, skill_id, place, author)
        };
        let changed = work.append_audit(&NewAuditEntry {
            action: "skill.rollback",
            by: &actor.name,
            via: &actor.via,
            skill_id: Some(skill_id),
            version: Some(target.version.number),
            detail: json!({"reason": reason}),
            ..NewAuditEntry::default()
        })?;
        work.add_intent(&mut intent, changed)?;
        Ok((intent, edited))
    }
}

impl LedgerSession<'_> {
    /// Records a direct edit of a skill, if there was one.
    pub(crate) fn record_edit(
        &mut self,
        skill_id: &str,
        place: &SkillDirectory,
    ) -> Result<Option<LedgerEvent>, LedgerError> {
        let captured = read_tree(place)?;
        let last = self.read(|work| work.version(skill_id, None))?;
        let known = match last {
            Some(last) => last.version.tree == captured.digest(),
            None => captured.files.is_empty(),
        };
        if known {
            if !captured.files.is_empty() {
                // The stored text may be damaged; the file on the disk replaces it.
                self.change(|work| work.add_blobs(captured.contents()))?;
            }
            return Ok(None);
        }
        self.change(|work| {
            Ok(record_version(work, skill_id, place, &captured, &VersionAuthor::External)?.1)
        })
    }

    /// Returns the directory of a skill, or the directory of its last version if it does not exist.
    pub(crate) fn find_directory(
        &mut self,
        snapshot: &Snapshot,
        skill_id: &str,
    ) -> Result<SkillDirectory, LedgerError> {
        if let Some(skill) = find_skill(snapshot, skill_id)? {
            return Ok(SkillDirectory::for_skill(skill));
        }
        let last = self.read(|work| work.version(skill_id, None))?;
        let found = last.and_then(|last| {
            // Only below a root that is still configured: another directory must not be written.
            let root = snapshot.roots().iter().find(|root| root.label == last.root)?;
            Some(SkillDirectory { root: last.root, root_path: root.path.clone(), rel: last.place })
        });
        match found {
            Some(place) => Ok(place),
            None => require_skill(snapshot, skill_id).map(SkillDirectory::for_skill),
        }
    }
}

fn find_version(
    work: &LedgerWork<'_, '_>,
    skill_id: &str,
    number: Option<u64>,
) -> Result<StoredVersion, LedgerError> {
    if let Some(stored) = work.version(skill_id, number)? {
        return Ok(stored);
    }
    // A known skill lacks only the number; similar names would mislead.
    let similar = match work.version(skill_id, None)? {
        Some(_) => Vec::new(),
        None => suggest_similar(skill_id, work.versioned_skills()?.iter().map(String::as_str)),
    };
    Err(version_not_found(skill_id, number, similar))
}

/// Returns the files of a version with their contents; every content is verified by its digest.
fn load_files(
    work: &LedgerWork<'_, '_>,
    skill_id: &str,
    stored: &StoredVersion,
    now: Option<&CapturedTree>,
) -> Result<Vec<VersionFile>, LedgerError> {
    let mut files = work.version_listing(stored.seq)?;
    for file in &mut files {
        let Some(content) = work.verified(file.digest, now)? else {
            let what = format!("version {} of `{skill_id}`", stored.version.number);
            let path = Path::new(&stored.place).join(&file.path);
            let otherwise = "roll back to another version";
            return Err(LedgerError::damaged_text(&what, &path, file.digest, otherwise));
        };
        file.content = content;
    }
    Ok(files)
}

fn version_not_found(skill_id: &str, number: Option<u64>, similar: Vec<String>) -> LedgerError {
    let id: String = skill_id.chars().take(128).collect();
    let message = match number {
        Some(number) => format!("`{id}` has no version {number}"),
        None => format!("no version of `{id}` found"),
    };
    let advice = Advice::from(NextStep::ShowHistory).with_text(" lists the versions of a skill");
    LedgerError::not_found(message, similar, advice)
}

/// Finds the version for a rollback.
fn rollback_target(
    work: &LedgerWork<'_, '_>,
    skill_id: &str,
    number: Option<u64>,
) -> Result<StoredVersion, LedgerError> {
    if number.is_some() {
        return find_version(work, skill_id, number);
    }
    let last = find_version(work, skill_id, None)?;
    match work.number_before(skill_id, last.version.number)? {
        None => Err(LedgerError::new(
            LedgerErrorKind::State,
            format!("`{skill_id}` has only one version"),
            "a rollback requires an earlier version",
        )),
        before => find_version(work, skill_id, before),
    }
}

/// Returns the changes that turn the current files into those of a version.
fn changed_files(
    captured: &CapturedTree,
    target: &StoredVersion,
    wanted: &[VersionFile],
) -> Vec<IntentFile> {
    let mut files = Vec::new();
    for file in wanted {
        let now = captured.file(&file.path);
        if now.is_none_or(|now| (now.digest, now.mode) != (file.digest, file.mode)) {
            files.push(IntentFile {
                path: file.path.clone(),
                old: now.map(|now| now.digest),
                new: Some(file.digest),
                mode: file.mode,
            });
        }
    }
    // If one of the trees is incomplete, a missing file may just not have been stored.
    if captured.complete && target.version.complete {
        let gone = |file: &&VersionFile| wanted.iter().all(|wanted| wanted.path != file.path);
        files.extend(captured.files.iter().filter(gone).map(|file| IntentFile {
            path: file.path.clone(),
            old: Some(file.digest),
            new: None,
            mode: file.mode,
        }));
    }
    files
}
