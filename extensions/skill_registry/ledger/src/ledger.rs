//! The ledger: proposals of agents, decisions of people, and the versions of skills.
//!
//! A call takes the lock of the data directory, opens the database, completes interrupted changes,
//! does its work and releases everything again; see `open.rs`. A change of a skill's files
//! is recorded as an intent first, then made file by file ([`crate::files::swap`]), then recorded as
//! a version; see [`crate::changes::apply`].

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use skill_catalog::{Clock, GenerationFile};
use ulid::Ulid;

use crate::records::acceptance::ProposalCheck;
use crate::records::note::LedgerNote;
use crate::sqlite::ChangeStamp;

/// The time a call waits for the lock of the ledger.
const WAIT: Duration = Duration::from_secs(10);

/// The directory of the proposal files, which people can read.
pub(crate) const PROPOSALS: &str = "proposals";

/// The store of the proposals, versions and audit log of a data directory.
///
/// Cheap to create and to hold: the database is opened for each call and closed again, under a lock
/// that other processes respect. A call waits up to ten seconds for that lock.
pub struct Ledger {
    pub(crate) data_dir: PathBuf,
    pub(crate) clock: Arc<dyn Clock>,
    /// Distinguishes the changes of this copy of the program from those of other copies.
    pub(crate) instance: String,
    pub(crate) wait: Duration,
    pub(crate) read_only: bool,
    /// The check of changes, if this copy of the program makes one.
    pub(crate) check: Option<Arc<dyn ProposalCheck>>,
    pub(crate) notes: Mutex<Vec<LedgerNote>>,
}

impl Ledger {
    /// Creates the ledger of a data directory, which need not exist; touches no file.
    #[must_use]
    pub fn new(data_dir: PathBuf, clock: Arc<dyn Clock>) -> Self {
        let instance = Ulid::generate().to_string();
        let (wait, notes) = (WAIT, Mutex::default());
        Self { data_dir, clock, instance, wait, read_only: false, check: None, notes }
    }

    /// Makes the ledger read-only: no file is created or changed, no lock is taken and no link is
    /// followed; changes fail. For homes that are not trusted.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Sets the check that every change of an agent has to pass before it is recorded.
    #[must_use]
    pub fn set_check(mut self, check: Arc<dyn ProposalCheck>) -> Self {
        self.check = Some(check);
        self
    }

    /// Sets the time a call waits for the lock of the ledger.
    #[must_use]
    pub fn set_wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Returns the same ledger with another wait time. Both count as one copy of the program:
    /// neither receives the events of the other.
    #[must_use]
    pub fn with_wait(&self, wait: Duration) -> Self {
        Self {
            data_dir: self.data_dir.clone(),
            clock: Arc::clone(&self.clock),
            instance: self.instance.clone(),
            wait,
            read_only: self.read_only,
            check: self.check.clone(),
            notes: Mutex::default(),
        }
    }

    /// Returns the notes since the last call and removes them.
    pub fn take_notes(&self) -> Vec<LedgerNote> {
        // A panic elsewhere leaves a complete list: notes are pushed one by one.
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a note for the next call of [`Ledger::take_notes`].
    pub fn note(&self, note: LedgerNote) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
    }

    /// Makes every running registry reload at its next turn.
    pub(crate) fn touch_generation(&self) {
        // The change is committed by now, so that a failure here must not be an error: registries
        // that are not notified find the change when they poll.
        if let Err(error) = GenerationFile::touch(&self.data_dir) {
            self.note(LedgerNote::NotAnnounced { reason: error.to_string() });
        }
    }

    pub(crate) fn stamp(&self) -> ChangeStamp {
        let since = self.clock.now().duration_since(UNIX_EPOCH);
        // A clock before 1970 counts as 1970: ids only require times that are not negative.
        let now_ms = since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
        ChangeStamp { now_ms, instance: self.instance.clone() }
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.data_dir.join(crate::sqlite::FILE)
    }

    pub(crate) fn proposals_dir(&self) -> PathBuf {
        self.data_dir.join(PROPOSALS)
    }

    /// Returns the data directory.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }
}
