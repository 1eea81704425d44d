//! The first version of every skill: its files at the time the registry first saw it.
//!
//! It is recorded before any change, so that the first edit loses no data.

use std::collections::HashMap;

use serde_json::json;
use skill_catalog::{Skill, Snapshot};
use skill_format::{Digest, SkillId};

use crate::changes::record::{disk_audit_entry, first_author};
use crate::files::skill_directory::SkillDirectory;
use crate::files::tree::{CapturedTree, read_tree};
use crate::ledger::Ledger;
use crate::records::error::LedgerError;
use crate::records::event::LedgerEvent;
use crate::session::LedgerSession;
use crate::sqlite::{NewAuditEntry, NewVersion};

/// The number of skills that one transaction records.
const BATCH_SKILLS: usize = 256;

/// The number of bytes of files after which a transaction is committed.
const BATCH_BYTES: u64 = 32 << 20;

/// A skill without a version, and its files.
struct Unrecorded<'s> {
    skill: &'s Skill,
    place: SkillDirectory,
    captured: CapturedTree,
}

impl Ledger {
    /// Records the files of every skill that has no version yet, and direct edits made while no
    /// registry was running. Returns the events of skills that have versions; a first version
    /// causes none.
    ///
    /// A skill whose files cannot be read is left out.
    ///
    /// # Errors
    /// Those of the disk and the database; what was recorded before stays recorded.
    pub(crate) fn record_first_versions(
        &self,
        snapshot: &Snapshot,
    ) -> Result<Vec<LedgerEvent>, LedgerError> {
        if snapshot.skills().is_empty() {
            return Ok(Vec::new());
        }
        // Compared by SKILL.md alone, without a look at the other files: this runs at every start.
        let known = self.with_existing_session(|session| session.read(|work| work.last_texts()))?;
        let known: HashMap<String, Option<Digest>> = known.into_iter().collect();
        let mut edited: Vec<SkillId> = Vec::new();
        let mut batch: Vec<Unrecorded<'_>> = Vec::new();
        let mut bytes = 0;
        for skill in snapshot.skills() {
            match known.get(skill.id().as_str()) {
                None => {
                    let place = SkillDirectory::for_skill(skill);
                    let Ok(captured) = read_tree(&place) else { continue };
                    bytes += captured.files.iter().map(|file| file.size).sum::<u64>();
                    batch.push(Unrecorded { skill, place, captured });
                }
                // A text that is not read yet is compared once it is.
                Some(text) if skill.digest().is_some_and(|now| *text != Some(now)) => {
                    edited.push(skill.id().clone());
                }
                Some(_) => {}
            }
            // In batches: neither the memory nor the time under the lock grows with the number of
            // skills.
            if batch.len() == BATCH_SKILLS || bytes >= BATCH_BYTES {
                self.with_session(|session| session.record_first(&batch))?;
                (batch, bytes) = (Vec::new(), 0);
            }
        }
        if !batch.is_empty() {
            self.with_session(|session| session.record_first(&batch))?;
        }
        if edited.is_empty() { Ok(Vec::new()) } else { self.record_direct_edits(snapshot, &edited) }
    }
}

impl LedgerSession<'_> {
    fn record_first(&mut self, batch: &[Unrecorded<'_>]) -> Result<(), LedgerError> {
        self.change(|work| {
            let mut new = Vec::new();
            for unrecorded in batch {
                // Another process may have recorded it since the versions were listed.
                let is_empty = unrecorded.captured.files.is_empty();
                if !is_empty && work.version(unrecorded.skill.id().as_str(), None)?.is_none() {
                    new.push(unrecorded);
                }
            }
            if new.is_empty() {
                return Ok(());
            }
            let changed = work.append_audit(&NewAuditEntry {
                action: "versions.first",
                detail: json!({ "skills": new.len() }),
                ..disk_audit_entry()
            })?;
            for Unrecorded { skill, place, captured } in new {
                let skill_id = skill.id().as_str();
                let author = first_author(work, skill_id)?;
                work.add_blobs(captured.contents())?;
                let version = NewVersion {
                    skill_id,
                    author: &author,
                    approved_by: None,
                    reason: Some("as first seen"),
                    proposal: None,
                    tree: captured.digest(),
                    files: &captured.files,
                    complete: captured.complete,
                    root: &place.root,
                    place: &place.rel,
                };
                work.add_version(&version, changed, 1)?;
            }
            Ok(())
        })
    }
}
