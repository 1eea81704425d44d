//! Completion of interrupted changes, before any other work in a session.

use std::fs;
use std::path::Path;

use crate::records::error::{LedgerError, LedgerErrorKind};
use crate::records::limits::MAX_OPEN_TOTAL;
use crate::records::note::LedgerNote;
use crate::records::proposal::{ProposalFileState, ProposalState};
use crate::session::LedgerSession;
use crate::sqlite::ChangeIntent;

impl LedgerSession<'_> {
    /// Completes the open changes. After a crash it also cleans up the data directory: `left_by`
    /// names the processes that ended without releasing the lock.
    pub(crate) fn recover(&mut self, left_by: &[String]) -> Result<(), LedgerError> {
        for intent in self.read(|work| work.pending_intents())? {
            self.resume(&intent)?;
        }
        // Only after a crash: it reads many files, and every session would pay for it.
        if !left_by.is_empty() {
            sweep_data(&self.ledger.data_dir, left_by);
            sweep_data(&self.ledger.proposals_dir(), left_by);
            self.write_missing_files()?;
            self.mirror_created()?;
        }
        Ok(())
    }

    /// Completes a change, or abandons it if it can never be completed.
    fn resume(&mut self, intent: &ChangeIntent) -> Result<(), LedgerError> {
        let (state, error) = match self.write_files(intent) {
            Ok(None) => {
                self.finish(intent)?;
                let skill_id = intent.skill_id.clone();
                let proposal = intent.proposal.clone();
                self.ledger.note(LedgerNote::Finished { skill_id, proposal });
                self.note_swept(intent);
                return Ok(());
            }
            Ok(Some(path)) => {
                let message = format!("{path} changed concurrently and was not overwritten");
                let hint = "inspect the changes, then try again";
                (ProposalState::Stale, LedgerError::new(LedgerErrorKind::Conflict, message, hint))
            }
            // A full or failing disk may work again the next time.
            Err(error) if error.reason() == LedgerErrorKind::Io => {
                self.note_unfinished(intent, &error);
                return Ok(());
            }
            // The session rebuilds the database and recovers again.
            Err(error) if error.is_corrupt() => return Err(error),
            Err(error) => (ProposalState::Failed, error),
        };
        // Files that cannot be restored stay as they are: every text is kept in the database.
        let undone = self.undo(intent);
        self.abandon(intent, state, undone.as_ref().err().unwrap_or(&error))?;
        self.note_unfinished(intent, &error);
        self.note_swept(intent);
        Ok(())
    }

    fn note_unfinished(&self, intent: &ChangeIntent, error: &LedgerError) {
        self.ledger.note(LedgerNote::Unfinished {
            skill_id: intent.skill_id.clone(),
            proposal: intent.proposal.clone(),
            reason: error.to_string(),
        });
    }

    fn note_swept(&self, intent: &ChangeIntent) {
        let files = self.remove_temporary_files(intent);
        if files > 0 {
            let skill_id = intent.skill_id.clone();
            self.ledger.note(LedgerNote::TemporaryFilesRemoved { skill_id, files });
        }
    }

    /// Writes the proposal files that a crash prevented.
    fn write_missing_files(&mut self) -> Result<(), LedgerError> {
        // One transaction changes no more proposals than can be open, so older files are complete.
        for id in self.read(|work| work.recently_changed_ids(MAX_OPEN_TOTAL as usize + 1))? {
            let stored = self.read(|work| work.find(&id))?;
            if self.ledger.file_state(&stored) != ProposalFileState::Edited {
                self.change(|work| work.rewrite_file(&stored))?;
            }
        }
        Ok(())
    }
}

/// Removes the temporary files of processes that no longer run.
fn sweep_data(dir: &Path, left_by: &[String]) {
    // Earlier versions had a point after the process id.
    let names = |id: &String| [format!(".generation.{id}-"), format!(".generation.{id}.")];
    let of_generation: Vec<_> = left_by.iter().flat_map(names).collect();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_left = |name: &str| {
            name.starts_with(".tmp-") || of_generation.iter().any(|start| name.starts_with(start))
        };
        if name.to_str().is_some_and(is_left) {
            // A leftover does no harm: readers skip such names.
            let _ = fs::remove_file(entry.path());
        }
    }
}
