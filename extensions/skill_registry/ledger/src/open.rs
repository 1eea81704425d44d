//! The way into a session: the lock, the database, and what has to be completed before any work.

use std::path::PathBuf;
use std::{fs, io};

use skillhost_files::{DirectoryLock, create_private_dir, fault, with_suffix};
use skillhost_payload::format_compact_time;

use crate::ledger::Ledger;
use crate::records::error::LedgerError;
use crate::session::LedgerSession;
use crate::sqlite::{self, LedgerDatabase};

impl Ledger {
    /// Runs `work` in a session. If the database turns out to be damaged, it is rebuilt and the
    /// work is repeated.
    pub(crate) fn with_session<T>(
        &self,
        work: impl Fn(&mut LedgerSession<'_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        if self.read_only {
            return Err(self.read_only_error());
        }
        let made = fault::failpoint("dir.create").and_then(|()| create_private_dir(&self.data_dir));
        made.map_err(|error| LedgerError::io("made", &self.data_dir, &error))?;
        // The lock comes before the database: SQLite's own locks do not cover the files of skills.
        let lock = DirectoryLock::acquire(&self.data_dir, self.wait)?;
        let done = match self.attempt(&lock, None, &work) {
            Err(error) if error.is_corrupt() => {
                // Once only: if the rebuilt database is damaged as well, the disk is at fault.
                let moved_to = self.move_aside()?;
                self.attempt(&lock, Some(moved_to), &work)
            }
            done => done,
        };
        drop(lock);
        done.map_err(|error| error.with_path(&self.database()))
    }

    /// Runs `work` if a ledger exists; creates none. A ledger that cannot be written is read as it
    /// is.
    pub(crate) fn with_existing_session<T: Default>(
        &self,
        work: impl Fn(&mut LedgerSession<'_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        if self.read_only {
            return self.peek(work);
        }
        // The proposal files suffice: a lost database is rebuilt from them.
        let exists = self.database().exists() || self.proposals_dir().exists();
        if !exists {
            return Ok(T::default());
        }
        self.with_or_peek(work)
    }

    /// Runs `work` in a session or, where the ledger cannot be written, reads it as it is.
    pub(crate) fn with_or_peek<T: Default>(
        &self,
        work: impl Fn(&mut LedgerSession<'_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        if self.read_only {
            return self.peek(work);
        }
        match self.with_session(&work) {
            Err(error) if error.is_unwritable() => self.peek(work),
            done => done,
        }
    }

    fn attempt<T>(
        &self,
        lock: &DirectoryLock,
        moved_to: Option<PathBuf>,
        work: &impl Fn(&mut LedgerSession<'_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        // A crash may have damaged the database; the check costs too much for every session.
        let suspect = !lock.left_by.is_empty();
        let (db, unused) = LedgerDatabase::open(&self.database(), self.wait, suspect)?;
        let mut session = LedgerSession { ledger: self, db, stamp: self.stamp(), peeks: false };
        if unused {
            session.rebuild(moved_to)?;
        }
        // Before the work, so that it never sees a half-written skill.
        session.recover(&lock.left_by)?;
        if unused || !session.is_mirrored() {
            session.mirror_created()?;
        }
        // Last: if the recovery fails, the next session has to repeat it.
        lock.clear_stale_holders();
        work(&mut session)
    }

    /// Renames a damaged database; no part of it is deleted.
    fn move_aside(&self) -> Result<PathBuf, LedgerError> {
        let path = self.database();
        let suffix = format!(".corrupt-{}", format_compact_time(self.stamp().now_ms));
        let mut target = with_suffix(&path, &suffix);
        while target.exists() {
            target = with_suffix(&target, "-again");
        }
        let failed = |error: io::Error| LedgerError::io("moved aside", &path, &error);
        // The sidecar files go first: the new database must never be opened with them.
        for (from, to) in sqlite::sidecar_paths(&path).iter().zip(sqlite::sidecar_paths(&target)) {
            match fs::rename(from, to) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
        }
        fs::rename(&path, &target).map_err(failed)?;
        Ok(target)
    }
}
