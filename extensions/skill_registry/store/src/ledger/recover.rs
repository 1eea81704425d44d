//! Bringing to an end what was interrupted, before anything else is done.

use crate::db::Intent;
use crate::ledger::error::{LedgerError, LedgerErrorKind};
use crate::ledger::note::LedgerNote;
use crate::ledger::proposal::{FileState, ProposalFilter, ProposalState};
use crate::ledger::session::Session;

impl Session<'_> {
    /// Goes through the changes that are not closed. After an unclean end also the proposal files
    /// are looked at.
    pub(super) fn recover(&mut self, unclean: bool) -> Result<(), LedgerError> {
        for intent in self.read(|work| work.pending_intents())? {
            self.resume(&intent)?;
        }
        if unclean {
            self.write_missing_files()?;
        }
        Ok(())
    }

    /// Makes the rest of a change, or gives it up if that can never be done.
    fn resume(&mut self, intent: &Intent) -> Result<(), LedgerError> {
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
                let message = format!("{path} was changed meanwhile and was left alone");
                let hint = "look at what changed, then try again";
                (ProposalState::Stale, LedgerError::new(LedgerErrorKind::Conflict, message, hint))
            }
            // A full disk or a failing one may be well again the next time.
            Err(error) if error.reason() == LedgerErrorKind::Io => {
                self.note_unfinished(intent, &error);
                return Ok(());
            }
            Err(error) if error.is_corrupt() => return Err(error),
            Err(error) => (ProposalState::Failed, error),
        };
        // What cannot be taken back stays as it is: every text is kept in the database.
        let undone = self.undo(intent);
        self.abandon(intent, state, undone.as_ref().err().unwrap_or(&error))?;
        self.note_unfinished(intent, &error);
        self.note_swept(intent);
        Ok(())
    }

    fn note_unfinished(&self, intent: &Intent, error: &LedgerError) {
        self.ledger.note(LedgerNote::Unfinished {
            skill_id: intent.skill_id.clone(),
            proposal: intent.proposal.clone(),
            reason: error.to_string(),
        });
    }

    fn note_swept(&self, intent: &Intent) {
        let files = self.sweep(intent);
        if files > 0 {
            let skill_id = intent.skill_id.clone();
            self.ledger.note(LedgerNote::Swept { skill_id, files });
        }
    }

    /// Writes the files of proposals that a crash kept from being written.
    fn write_missing_files(&mut self) -> Result<(), LedgerError> {
        let waiting = self.read(|work| work.proposals(&ProposalFilter::default()))?;
        for summary in waiting {
            let stored = self.read(|work| work.find(&summary.id))?;
            if self.ledger.file_state(&stored) != FileState::Edited {
                self.change(|work| work.write_again(&stored))?;
            }
        }
        Ok(())
    }
}
