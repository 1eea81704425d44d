//! A session, which is the open ledger for one operation, and its transactions.

use std::cell::RefCell;
use std::fs;
use std::ops::Deref;
use std::path::PathBuf;

use skill_catalog::{Advice, NextStep, suggest_similar};
use skill_format::Digest;
use skillhost_payload::format_compact_time;

use crate::files::data_file::write_file;
use crate::files::proposal_file;
use crate::ledger::Ledger;
use crate::records::error::{LedgerError, LedgerErrorKind};
use crate::records::note::LedgerNote;
use crate::records::proposal::{Proposal, ProposalFileState};
use crate::sqlite::{ChangeStamp, LedgerDatabase, LedgerTransaction, StoredProposal};

/// The minimum length of an abbreviated proposal id, in characters.
const MIN_PREFIX: usize = 6;

/// The number of ids, the newest first, that are compared with an unknown one.
const MAX_COMPARED: usize = 1_000;

/// The open ledger.
pub(crate) struct LedgerSession<'l> {
    pub(crate) ledger: &'l Ledger,
    pub(crate) db: LedgerDatabase,
    pub(crate) stamp: ChangeStamp,
    /// `true` if the database is read as it is, without repairs.
    pub(crate) peeks: bool,
}

/// A transaction, and the proposal files to write after its commit.
pub(crate) struct LedgerWork<'t, 'c> {
    tx: &'t LedgerTransaction<'c>,
    ledger: &'t Ledger,
    files: RefCell<Vec<(PathBuf, String)>>,
}

impl Ledger {
    /// Adds the state of its file to a proposal from the database.
    fn with_file_state(&self, stored: StoredProposal) -> Proposal {
        let state = self.file_state(&stored);
        let mut proposal = stored.proposal;
        proposal.file = self.proposals_dir().join(&proposal.file);
        proposal.file_state = state;
        proposal
    }

    /// Compares a proposal's file with the content that was written, or is about to be written.
    pub(crate) fn file_state(&self, stored: &StoredProposal) -> ProposalFileState {
        let path = self.proposals_dir().join(&stored.proposal.file);
        match fs::read(path) {
            Err(_) => ProposalFileState::Missing,
            Ok(bytes) => {
                let found = Digest::compute(&bytes);
                // A crash between commit and write leaves the former content, which does not count
                // as an edit either.
                if found == stored.file_digest || Some(found) == stored.file_before {
                    ProposalFileState::AsWritten
                } else {
                    ProposalFileState::Edited
                }
            }
        }
    }
}

impl LedgerSession<'_> {
    /// Runs `work` in one transaction, then writes the files of the changed proposals.
    pub(crate) fn change<T>(
        &mut self,
        work: impl FnOnce(&LedgerWork<'_, '_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let ledger = self.ledger;
        let (done, files) = self.db.write(&self.stamp, |tx| {
            let inner = LedgerWork { tx, ledger, files: RefCell::default() };
            let done = work(&inner)?;
            Ok((done, inner.files.into_inner()))
        })?;
        // After the commit: a file must not show a state that was rolled back. A file that cannot
        // be written does not fail the call, because the database has its content.
        for (path, text) in files {
            if let Err(error) = write_file(&path, &text) {
                ledger.note(LedgerNote::FileNotWritten { path, reason: error.to_string() });
            }
        }
        Ok(done)
    }

    /// Runs `work` in one transaction that is not committed.
    pub(crate) fn read<T>(
        &mut self,
        work: impl FnOnce(&LedgerWork<'_, '_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let ledger = self.ledger;
        self.db.read(&self.stamp, |tx| work(&LedgerWork { tx, ledger, files: RefCell::default() }))
    }
}

impl<'c> Deref for LedgerWork<'_, 'c> {
    type Target = LedgerTransaction<'c>;

    fn deref(&self) -> &LedgerTransaction<'c> {
        self.tx
    }
}

impl LedgerWork<'_, '_> {
    /// Returns the directory of the proposal files.
    pub(crate) fn proposals_dir(&self) -> PathBuf {
        self.ledger.proposals_dir()
    }

    /// Records the result of the check of a proposal, if there is one.
    pub(crate) fn save_acceptance(
        &self,
        stored: &StoredProposal,
        changed: u64,
    ) -> Result<(), LedgerError> {
        let summary = &stored.proposal.summary;
        match &summary.acceptance {
            Some(acceptance) => self.put_acceptance(&summary.id, acceptance, changed),
            None => Ok(()),
        }
    }

    /// Finds a proposal by its id, a prefix of it, or its number.
    pub(crate) fn find(&self, id: &str) -> Result<StoredProposal, LedgerError> {
        let wanted = id.trim();
        let found = match wanted.parse::<u64>() {
            // A longer number may be the beginning of an id, which starts with digits.
            Ok(seq) if wanted.len() < MIN_PREFIX => self.proposal_id_by_number(seq)?,
            _ => self.resolve_id(wanted)?,
        };
        let stored = match found {
            Some(id) => self.proposal(&id)?,
            None => None,
        };
        match stored {
            Some(stored) => Ok(stored),
            None => {
                let known = self.proposal_ids("", MAX_COMPARED)?;
                Err(proposal_not_found(
                    wanted,
                    suggest_similar(wanted, known.iter().map(String::as_str)),
                ))
            }
        }
    }

    fn resolve_id(&self, prefix: &str) -> Result<Option<String>, LedgerError> {
        let prefix = prefix.to_ascii_uppercase();
        if prefix.len() < MIN_PREFIX {
            return Err(LedgerError::new(
                LedgerErrorKind::Argument,
                format!("`{prefix}` is too short for a proposal's id"),
                format!("give at least {MIN_PREFIX} characters, or the proposal's number"),
            ));
        }
        // One more than is named, to tell whether there are more.
        let mut found = self.proposal_ids(&prefix, 4)?;
        if found.len() > 1 {
            found.truncate(3);
            return Err(LedgerError::ambiguous(
                format!("`{prefix}` matches the ids of several proposals"),
                found,
            ));
        }
        Ok(found.pop())
    }

    /// Returns a proposal in the form for callers.
    pub(crate) fn complete(&self, stored: StoredProposal) -> Proposal {
        self.ledger.with_file_state(stored)
    }

    /// Saves a changed proposal and schedules the update of its file, unless the file was edited.
    pub(crate) fn save(
        &self,
        stored: &mut StoredProposal,
        changed: u64,
    ) -> Result<(), LedgerError> {
        let path = self.ledger.proposals_dir().join(&stored.proposal.file);
        let state = self.ledger.file_state(stored);
        if state == ProposalFileState::Edited {
            self.ledger.note(LedgerNote::EditedFile { path });
        } else {
            let text = proposal_file::render_proposal(&stored.proposal);
            let digest = Digest::compute(text.as_bytes());
            if state == ProposalFileState::Missing || digest != stored.file_digest {
                // Until the new file is in place, the old one counts as written, too.
                stored.file_before = fs::read(&path).ok().map(|bytes| Digest::compute(&bytes));
                stored.file_digest = digest;
                self.files.borrow_mut().push((path, text));
            }
        }
        self.update_proposal(stored, changed)
    }

    /// Adds a new proposal and schedules its file.
    pub(crate) fn add(&self, stored: &mut StoredProposal, changed: u64) -> Result<(), LedgerError> {
        let text = proposal_file::render_proposal(&stored.proposal);
        stored.file_digest = Digest::compute(text.as_bytes());
        let path = self.ledger.proposals_dir().join(&stored.proposal.file);
        self.files.borrow_mut().push((path, text));
        self.add_proposal(stored, changed)
    }

    /// Schedules the file of a stored proposal if it is missing or outdated.
    pub(crate) fn rewrite_file(&self, stored: &StoredProposal) -> Result<(), LedgerError> {
        let text = proposal_file::render_proposal(&stored.proposal);
        let path = self.ledger.proposals_dir().join(&stored.proposal.file);
        let written = fs::read(&path).is_ok_and(|bytes| bytes == text.as_bytes());
        // Another version of the program may render another text: the recorded digest decides.
        if !written && Digest::compute(text.as_bytes()) == stored.file_digest {
            self.files.borrow_mut().push((path, text));
        }
        Ok(())
    }

    /// Chooses an unused name for a new proposal's file.
    pub(crate) fn new_file_name(&self, skill_id: &str) -> Result<PathBuf, LedgerError> {
        let base = format!("{skill_id}-{}", format_compact_time(self.now_ms()));
        for nth in 1_u32.. {
            let name = if nth == 1 { format!("{base}.md") } else { format!("{base}-{nth}.md") };
            let in_use = self.has_file(&name)? || self.ledger.proposals_dir().join(&name).exists();
            if !in_use {
                return Ok(name.into());
            }
        }
        unreachable!("there are fewer files than numbers")
    }
}

pub(crate) fn proposal_not_found(id: &str, similar: Vec<String>) -> LedgerError {
    let id: String = id.chars().take(64).collect();
    LedgerError::not_found(
        format!("proposal `{id}` not found"),
        similar,
        Advice::from(NextStep::ListProposals)
            .with_text(" lists them; give the id, a prefix of it or the number"),
    )
}
