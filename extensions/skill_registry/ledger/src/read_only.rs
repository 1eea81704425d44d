//! Reads of a ledger that do not touch its directory: where writing is not allowed, or fails.

use std::path::Path;
use std::{fs, io};

use skillhost_payload::OperatorCommand;

use crate::ledger::Ledger;
use crate::records::error::{LedgerError, LedgerErrorKind};
use crate::session::LedgerSession;
use crate::sqlite::{self, LedgerDatabase};

/// The maximum size of a database that is copied, in bytes.
const MAX_COPIED: u64 = 1 << 30;

impl Ledger {
    /// Reads from the database as it is on the disk, without lock and repairs. Returns the default
    /// if the database does not exist.
    pub(crate) fn peek<T: Default>(
        &self,
        work: impl Fn(&mut LedgerSession<'_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let path = self.database();
        for place in [self.data_dir.as_path(), &path] {
            match fs::symlink_metadata(place) {
                // In a home that is not trusted a link could lead to any file of the user.
                Ok(found) if found.is_symlink() && self.read_only => return Err(link_error(place)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(T::default()),
                Err(error) => return Err(LedgerError::io("read", place, &error)),
            }
        }
        let done = match LedgerDatabase::open_unchanging(&path)? {
            Some(db) => self.peek_into(db, work),
            None => {
                // SQLite would have to write next to the database; the copy lies where that is
                // harmless.
                let copy = copy_database(&path)?;
                let (db, _) =
                    LedgerDatabase::open(&copy.path().join(sqlite::FILE), self.wait, false)?;
                self.peek_into(db, work)
            }
        };
        done.map_err(|error| error.with_path(&path))
    }

    fn peek_into<T>(
        &self,
        db: LedgerDatabase,
        work: impl Fn(&mut LedgerSession<'_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        work(&mut LedgerSession { ledger: self, db, stamp: self.stamp(), peeks: true })
    }

    /// Creates the error for a change of a read-only ledger.
    pub(crate) fn read_only_error(&self) -> LedgerError {
        let message = format!("{} is read-only: its home is not trusted", self.data_dir.display());
        LedgerError::new(
            LedgerErrorKind::Denied,
            message,
            format!(
                "inspect its manifests, extensions and skills, then run `{}`; after that, `skill` \
                 commands can change it",
                OperatorCommand::TrustHome { dir: None }
            ),
        )
    }
}

/// Copies a database and its write-ahead log to a temporary directory.
fn copy_database(path: &Path) -> Result<tempfile::TempDir, LedgerError> {
    let failed = |error: io::Error| LedgerError::io("read", path, &error);
    let directory = tempfile::tempdir().map_err(failed)?;
    let [wal, _] = sqlite::sidecar_paths(path);
    let target = directory.path().join(sqlite::FILE);
    let [target_wal, _] = sqlite::sidecar_paths(&target);
    for (from, to) in [(path, &target), (&wal, &target_wal)] {
        let found = match fs::symlink_metadata(from) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error)),
        };
        // `symlink_metadata` does not follow links: a link is not a file here.
        if !found.is_file() {
            return Err(link_error(from));
        }
        if found.len() > MAX_COPIED {
            return Err(LedgerError::new(
                LedgerErrorKind::TooLarge,
                format!(
                    "{} has {} bytes, at most {MAX_COPIED} are read",
                    from.display(),
                    found.len()
                ),
                "make its directory writable, so that it is read in place",
            ));
        }
        fs::copy(from, to).map_err(failed)?;
    }
    Ok(directory)
}

fn link_error(path: &Path) -> LedgerError {
    LedgerError::new(
        LedgerErrorKind::Denied,
        format!("{} is not a regular file of the home", path.display()),
        "check where it leads and replace it; links are not followed in a home that is not trusted",
    )
}
