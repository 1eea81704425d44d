//! Reading a journal where nothing can be written: SQLite would make files beside it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::error::{JournalError, JournalErrorKind};
use crate::store::JournalResult;

/// Opens a journal for reading as it is on the disk: in place where its last writer closed it, else
/// a copy of it.
pub(super) fn peek(path: &Path) -> JournalResult<Connection> {
    let wal = with_suffix(path, "-wal");
    if fs::metadata(&wal).map_or(0, |found| found.len()) == 0 {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        return Ok(Connection::open_with_flags(unchanging_uri(path), flags)?);
    }
    let failed = |error: io::Error| JournalError::io("cannot be read", &error);
    let folder = tempfile::tempdir().map_err(failed)?;
    let copy = folder.path().join("events.db");
    fs::copy(path, &copy).map_err(failed)?;
    fs::copy(&wal, with_suffix(&copy, "-wal")).map_err(failed)?;
    let conn = Connection::open_with_flags(&copy, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // Opened, they stay; what was copied is gone when the connection is.
    conn.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get::<_, i64>(0))?;
    Ok(conn)
}

/// Whether opening a file for writing failed because of its place.
pub(super) fn is_unwritable(error: &JournalError, path: &Path) -> bool {
    error.kind() == JournalErrorKind::Io && path.is_file()
}

/// Names a file so that SQLite takes it for one that nobody changes.
fn unchanging_uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    uri
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
