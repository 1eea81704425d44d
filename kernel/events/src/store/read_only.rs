//! Read access to a journal in a read-only location, where SQLite cannot create its files.

use std::fs;
use std::io;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use skillhost_files::{sqlite_immutable_uri, with_suffix};

use crate::error::{JournalError, JournalErrorKind};
use crate::store::JournalResult;

/// Opens a journal for reading: in place if its last writer closed it, otherwise a copy.
pub(super) fn open_read_only(path: &Path) -> JournalResult<Connection> {
    let wal = with_suffix(path, "-wal");
    // A log with content would have to be replayed, which requires write access.
    if fs::metadata(&wal).map_or(0, |found| found.len()) == 0 {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        return Ok(Connection::open_with_flags(sqlite_immutable_uri(path), flags)?);
    }
    let to_error = |error: io::Error| JournalError::io("cannot be read", &error);
    let directory = tempfile::tempdir().map_err(to_error)?;
    let copy = directory.path().join("events.db");
    fs::copy(path, &copy).map_err(to_error)?;
    fs::copy(&wal, with_suffix(&copy, "-wal")).map_err(to_error)?;
    let conn = Connection::open_with_flags(&copy, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // Makes SQLite open the files now: open files outlive the removal of the directory below.
    conn.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get::<_, i64>(0))?;
    Ok(conn)
}

/// Returns whether opening a file for writing failed because of its location.
pub(super) fn is_unwritable(error: &JournalError, path: &Path) -> bool {
    error.kind() == JournalErrorKind::Io && path.is_file()
}
