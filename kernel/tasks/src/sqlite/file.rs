//! The file of the store: opened, created, migrated; never replaced.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OpenFlags};
use skillhost_files::{create_private_dir, with_suffix};

use super::failure::{damage_error, io_error};
use super::schema;
use crate::error::{QueueError, QueueErrorKind};
use crate::store::StoreResult;

/// The timeout for a lock that another process has on the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of pages in the log after which a commit copies them to the file.
// More than SQLite's 1000: a page that changes often is then copied once for several commits.
const CHECKPOINT_PAGES: i64 = 4000;
/// The number of prepared statements of a connection.
const STATEMENT_CACHE: usize = 64;

/// The identity of a file and of its content, to notice that it was replaced or restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileStamp {
    id: (u64, u64),
    bytes: u64,
    changed: Option<SystemTime>,
}

impl FileStamp {
    /// Returns the stamp of a file, or `None` if it does not exist.
    pub(super) fn load(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        Some(Self { id: file_id(&found), bytes: found.len(), changed: found.modified().ok() })
    }

    /// Returns whether both are the same file, possibly with other content.
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

/// Opens the file for writing, and creates or migrates it first if needed.
pub(super) fn open_writable(path: &Path) -> StoreResult<Connection> {
    // The common case takes no lock, so that it does not wait for a migration elsewhere.
    if path.exists() {
        let conn = open_connection(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        if check_version(&conn)? == Some(schema::LATEST_VERSION) {
            return prepare_writer(conn);
        }
    }
    let _lock = lock_creation(path)?;
    create_private_file(path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut conn = open_connection(path, flags)?;
    // Another process may have created it in between.
    if check_version(&conn)? != Some(schema::LATEST_VERSION) {
        // WAL lets readers read during a write, and a commit waits for one sync only.
        conn.pragma_update(None, "journal_mode", "WAL")?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        schema::MIGRATIONS.to_latest(&mut conn).map_err(|error| match error {
            rusqlite_migration::Error::RusqliteError { err, .. } => err.into(),
            other => QueueError::new(
                QueueErrorKind::Database,
                format!("migration of the task store failed: {other}"),
                "report this error",
            ),
        })?;
    }
    prepare_writer(conn)
}

/// Opens the file for reading; `None` if it does not exist or has no tables yet.
pub(super) fn open_readable(path: &Path) -> StoreResult<Option<Connection>> {
    if !path.exists() {
        return Ok(None);
    }
    let conn = open_connection(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    Ok(check_version(&conn)?.map(|_| conn))
}

/// Checks every page.
pub(super) fn check_pages(conn: &Connection) -> StoreResult<()> {
    let verdict: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    match verdict.as_str() {
        "ok" => Ok(()),
        damage => Err(damage_error(damage)),
    }
}

fn prepare_writer(conn: Connection) -> StoreResult<Connection> {
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    Ok(conn)
}

fn open_connection(path: &Path, flags: OpenFlags) -> StoreResult<Connection> {
    // Without SQLite's own mutex: a single thread uses the connection.
    let conn = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
    Ok(conn)
}

/// Returns the version of the schema, or `None` for a file without tables.
fn check_version(conn: &Connection) -> StoreResult<Option<i64>> {
    // Both are read in one snapshot: another connection may create the tables in between, and the
    // file would seem to be that of another program.
    let snapshot = conn.unchecked_transaction()?;
    let version: i64 = snapshot.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version > schema::LATEST_VERSION {
        return Err(QueueError::new(
            QueueErrorKind::Newer,
            format!(
                "the task store has version {version}, this program supports up to {}",
                schema::LATEST_VERSION
            ),
            "use the newer program that wrote it; the file is unchanged",
        ));
    }
    if version > 0 {
        return Ok(Some(version));
    }
    // A database of another program also has version 0, but it has tables.
    let tables = "SELECT count(*) FROM sqlite_master";
    match snapshot.query_row(tables, [], |row| row.get::<_, i64>(0))? {
        0 => Ok(None),
        _ => Err(damage_error("the file is not a task store")),
    }
}

/// Creates an empty file that only its owner can read, if none exists.
// SQLite gives its files next to it the same permissions.
fn create_private_file(path: &Path) {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // The file exists already, or SQLite reports the same error.
    let _ = options.open(path);
}

/// Locks the creation and migration of the file against other processes.
fn lock_creation(path: &Path) -> StoreResult<File> {
    let to_error = |error| io_error("cannot create its directory", &error);
    if let Some(directory) = path.parent() {
        // Inputs contain messages of users.
        create_private_dir(directory).map_err(to_error)?;
    }
    let lock = with_suffix(path, ".lock");
    let file = File::options().create(true).append(true).open(&lock).map_err(to_error)?;
    file.lock().map_err(to_error)?;
    Ok(file)
}

#[cfg(unix)]
fn file_id(found: &fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt as _;
    (found.dev(), found.ino())
}

/// Returns a constant: replaced files are not detected by their identity on this platform.
#[cfg(not(unix))]
fn file_id(_: &fs::Metadata) -> (u64, u64) {
    // The standard library has no stable file identity outside of Unix.
    (0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_in_creation_is_not_damaged() {
        for _ in 0..200 {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("work.db");
            std::thread::scope(|scope| {
                let creator = scope.spawn(|| open_writable(&path).map(drop));
                while open_readable(&path).unwrap().is_none() {
                    std::thread::yield_now();
                }
                creator.join().unwrap().unwrap();
            });
        }
    }
}
