//! Consistent copies of single files, while other processes write them.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use skillhost_files::sqlite_immutable_uri;
use tempfile::{NamedTempFile, SpooledTempFile};

use crate::error::BackupError;

/// The size up to which a copy is kept in memory, in bytes.
const MAX_MEMORY: usize = 4 * 1024 * 1024;

/// The time limit of the wait for a database that another process has locked.
const BUSY_LIMIT: Duration = Duration::from_secs(10);

/// The pause between two attempts to read a locked database.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// The number of attempts to read a file that changes meanwhile.
const MAX_ATTEMPTS: u32 = 5;

/// A copy of a file, at its start.
pub(crate) struct FileSnapshot {
    pub(crate) content: Box<dyn Read>,
    /// The length in bytes.
    pub(crate) size: u64,
}

/// Copies a file that is replaced as a whole. A file that is written in place is read again until
/// it stays the same meanwhile; the last attempt counts.
pub(crate) fn snapshot_file(path: &Path) -> io::Result<FileSnapshot> {
    let mut attempt = 1;
    loop {
        let mut file = File::open(path)?;
        let before = file.metadata()?;
        let mut copy = SpooledTempFile::new(MAX_MEMORY);
        let size = io::copy(&mut file, &mut copy)?;
        let after = file.metadata()?;
        let is_same = (before.len(), before.modified()?) == (after.len(), after.modified()?);
        if (is_same && size == after.len()) || attempt == MAX_ATTEMPTS {
            copy.seek(SeekFrom::Start(0))?;
            return Ok(FileSnapshot { content: Box::new(copy), size });
        }
        attempt += 1;
    }
}

/// Copies the complete lines of an append log: the last one may be half written.
pub(crate) fn snapshot_append_log(path: &Path) -> io::Result<FileSnapshot> {
    let mut file = File::open(path)?;
    let mut copy = SpooledTempFile::new(MAX_MEMORY);
    let (mut read, mut complete) = (0u64, 0u64);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        if let Some(end) = buffer[..count].iter().rposition(|byte| *byte == b'\n') {
            complete = read + end as u64 + 1;
        }
        copy.write_all(&buffer[..count])?;
        read += count as u64;
    }
    copy.seek(SeekFrom::Start(0))?;
    Ok(FileSnapshot { content: Box::new(copy.take(complete)), size: complete })
}

/// Copies a database within one transaction of SQLite: committed changes are in it as a whole.
///
/// A file that SQLite cannot read is copied as it is; then the second value is true.
pub(crate) fn snapshot_database(path: &Path) -> Result<(FileSnapshot, bool), BackupError> {
    let target = NamedTempFile::new().map_err(BackupError::io(path))?;
    match copy_database(path, target.path()) {
        Ok(true) => {}
        Ok(false) => return Err(BackupError::Locked { path: path.to_owned() }),
        Err(error) if is_damaged(&error) => {
            let copy = snapshot_file(path).map_err(BackupError::io(path))?;
            return Ok((copy, true));
        }
        Err(source) => return Err(BackupError::Database { path: path.to_owned(), source }),
    }
    let failed = BackupError::io(path);
    // Opened by its path: SQLite has replaced nothing, but written through a descriptor of its own.
    let opened = target.reopen().and_then(|file| Ok((file.metadata()?.len(), file)));
    let (size, file) = opened.map_err(failed)?;
    Ok((FileSnapshot { content: Box::new(OpenCopy { file, _path: target }), size }, false))
}

/// A temporary file that exists as long as it is read.
struct OpenCopy {
    file: File,
    _path: NamedTempFile,
}

impl Read for OpenCopy {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}

/// Copies a database; returns false if it stayed locked.
fn copy_database(from: &Path, to: &Path) -> rusqlite::Result<bool> {
    let source = open_source(from)?;
    // The file may have been manipulated: its schema must not call functions with side effects.
    source.pragma_update(None, "trusted_schema", false)?;
    let mut target = Connection::open(to)?;
    let until = Instant::now() + BUSY_LIMIT;
    let copied = {
        let backup = Backup::new(&source, &mut target)?;
        loop {
            // All pages at once: in several steps, a writer could make the copy start again forever.
            match backup.step(-1)? {
                StepResult::Done => break true,
                _ if Instant::now() >= until => break false,
                _ => thread::sleep(BUSY_PAUSE),
            }
        }
    };
    // Closed here, so that no file of a log remains next to the copy.
    target.close().map_err(|(_, error)| error)?;
    Ok(copied)
}

/// Opens a database for reading. One that is not closed has a log, whose use requires write access.
fn open_source(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(path, flags)
        .and_then(|source| source.busy_timeout(BUSY_LIMIT).map(|()| source))
        .and_then(|source| {
            // Opens the file; until then a missing permission is not noticed.
            source.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))?;
            Ok(source)
        });
    match opened {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) => {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
                | OpenFlags::SQLITE_OPEN_URI
                | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            Connection::open_with_flags(sqlite_immutable_uri(path), flags)
        }
        opened => opened,
    }
}

fn is_damaged(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut snapshot: FileSnapshot) -> Vec<u8> {
        let mut bytes = Vec::new();
        snapshot.content.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, snapshot.size);
        bytes
    }

    #[test]
    fn partial_line_is_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.jsonl");
        for (text, expected) in
            [("", ""), ("{}", ""), ("{}\n", "{}\n"), ("{}\n[]\n{\"a", "{}\n[]\n")]
        {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read(snapshot_append_log(&path).unwrap()), expected.as_bytes());
        }
    }

    #[test]
    fn open_database_is_copied_with_its_log() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data.db");
        let writer = Connection::open(&path).unwrap();
        writer.pragma_update(None, "journal_mode", "WAL").unwrap();
        writer.execute_batch("CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (1)").unwrap();
        // An open transaction of another connection is not part of the copy.
        writer.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (2)").unwrap();
        assert!(std::fs::metadata(directory.path().join("data.db-wal")).unwrap().len() > 0);
        let (snapshot, damaged) = snapshot_database(&path).unwrap();
        assert!(!damaged);
        let copy = directory.path().join("copy.db");
        std::fs::write(&copy, read(snapshot)).unwrap();
        let copied = Connection::open(&copy).unwrap();
        let sum: i64 = copied.query_row("SELECT sum(n) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(sum, 1);
        let mode: String = copied.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
        writer.execute_batch("COMMIT").unwrap();
    }

    #[test]
    fn damaged_database_is_copied_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data.db");
        let bytes = [b"SQLite format 3\0".as_slice(), &[7; 3000]].concat();
        std::fs::write(&path, &bytes).unwrap();
        let (snapshot, damaged) = snapshot_database(&path).unwrap();
        assert!(damaged);
        assert_eq!(read(snapshot), bytes);
    }
}
