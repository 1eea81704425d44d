//! Direct edits of skills, made without the ledger.

use skill_catalog::Snapshot;
use skill_format::SkillId;
use skillhost_files::jail::JailError;

use crate::changes::record::{first_author, mark_stale, record_version};
use crate::files::skill_directory::{SkillDirectory, find_skill};
use crate::files::tree::{CapturedTree, read_tree};
use crate::ledger::Ledger;
use crate::records::error::LedgerError;
use crate::records::event::LedgerEvent;
use crate::records::version::VersionAuthor;
use crate::session::LedgerSession;

impl Ledger {
    /// Records direct edits of skills: as new versions, and as stale proposals that no longer fit
    /// their file. Without any skill it only restores the texts of rebuilt proposals.
    ///
    /// # Errors
    /// Those of the disk and the database; what was recorded before stays recorded.
    pub fn record_direct_edits(
        &self,
        snapshot: &Snapshot,
        changed: &[SkillId],
    ) -> Result<Vec<LedgerEvent>, LedgerError> {
        let work = |session: &mut LedgerSession<'_>| {
            session.restore_texts(snapshot)?;
            let mut events = Vec::new();
            for id in changed {
                events.extend(session.observe(snapshot, id.as_str())?);
            }
            Ok(events)
        };
        if changed.is_empty() { self.with_existing_session(work) } else { self.with_session(work) }
    }
}

impl LedgerSession<'_> {
    fn observe(
        &mut self,
        snapshot: &Snapshot,
        skill_id: &str,
    ) -> Result<Vec<LedgerEvent>, LedgerError> {
        let place = match find_skill(snapshot, skill_id)? {
            Some(skill) => SkillDirectory::for_skill(skill),
            None => match self.find_directory(snapshot, skill_id) {
                Ok(place) if is_gone(&place) => place,
                // Its root may only be missing temporarily, as on a drive that is not mounted.
                _ => return Ok(Vec::new()),
            },
        };
        let captured = read_tree(&place)?;
        self.change(|work| {
            let author = match work.version(skill_id, None)? {
                None => first_author(work, skill_id)?,
                Some(_) => VersionAuthor::External,
            };
            let (_, edited) = record_version(work, skill_id, &place, &captured, &author)?;
            let mut events: Vec<LedgerEvent> = edited.into_iter().collect();
            // Also without a new version: the proposals may be newer than the last version.
            events.extend(mark_stale(work, skill_id, &|path| known_digest(&captured, path))?);
            Ok(events)
        })
    }
}

fn known_digest(captured: &CapturedTree, path: &str) -> Option<Option<skill_format::Digest>> {
    match captured.file(path) {
        // A file that is missing from an incomplete tree may exist: only a complete one proves it.
        Some(file) => Some(Some(file.digest)),
        None => captured.complete.then_some(None),
    }
}

/// Returns `true` if a skill's directory is missing while its root exists.
fn is_gone(place: &SkillDirectory) -> bool {
    place.root_path.is_dir() && matches!(place.open(false), Err(JailError::NotFound))
}
