//! The file: opened, created, checked; never replaced.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use skillhost_files::{create_private_dir, with_suffix};

use super::{ChannelStoreError, StoreResult};

/// The version of the schema.
const VERSION: i64 = 1;
/// The timeout for a lock that another process has on the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

const SCHEMA: &str = "
CREATE TABLE peers (
    channel TEXT NOT NULL, id TEXT NOT NULL, role TEXT NOT NULL, agents TEXT NOT NULL,
    name TEXT NOT NULL, chat TEXT, topic TEXT NOT NULL DEFAULT '', paired_ms INTEGER NOT NULL,
    PRIMARY KEY (channel, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE conversations (
    channel TEXT NOT NULL, chat TEXT NOT NULL, topic TEXT NOT NULL, is_group INTEGER NOT NULL,
    thread TEXT NOT NULL, agent TEXT NOT NULL, peer TEXT NOT NULL, last_message TEXT NOT NULL,
    changed_ms INTEGER NOT NULL,
    PRIMARY KEY (channel, chat, topic)
) STRICT, WITHOUT ROWID;
-- Earlier threads of a conversation keep their tasks and questions.
CREATE TABLE threads (
    thread TEXT PRIMARY KEY, channel TEXT NOT NULL, chat TEXT NOT NULL, topic TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX threads_by_chat ON threads (channel, chat, topic);
CREATE TABLE buttons (
    hash TEXT PRIMARY KEY, question TEXT NOT NULL, digest TEXT NOT NULL, choice TEXT NOT NULL,
    channel TEXT NOT NULL, peer TEXT NOT NULL, chat TEXT NOT NULL, topic TEXT NOT NULL,
    message TEXT, made_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE shown_questions (
    question TEXT NOT NULL, digest TEXT NOT NULL, channel TEXT NOT NULL, peer TEXT NOT NULL,
    chat TEXT NOT NULL, topic TEXT NOT NULL, is_group INTEGER NOT NULL, message TEXT NOT NULL,
    shown_ms INTEGER NOT NULL,
    PRIMARY KEY (question, channel, chat, topic, message)
) STRICT, WITHOUT ROWID;
CREATE TABLE cursors (channel TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE codes (
    hash TEXT PRIMARY KEY, channel TEXT NOT NULL, role TEXT NOT NULL, agents TEXT NOT NULL,
    expires_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- Messages that the kernel answered by itself, with its reply.
CREATE TABLE handled (
    message TEXT PRIMARY KEY, reply TEXT NOT NULL, at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX handled_by_time ON handled (at_ms);
CREATE INDEX buttons_by_time ON buttons (made_ms);
CREATE INDEX shown_by_time ON shown_questions (shown_ms);
";

/// Opens the file, and creates it first if it does not exist.
pub(super) fn open_connection(path: &Path) -> StoreResult<Connection> {
    if !path.exists() {
        return create_file(path);
    }
    let mut conn = open(path)?;
    match check_version(&conn)? {
        VERSION => {}
        // Another process has just created it, or was killed while it did.
        _ => {
            let _lock = lock_creation(path)?;
            create_tables(&mut conn)?;
        }
    }
    Ok(conn)
}

/// Checks every page.
pub(super) fn check_pages(conn: &Connection) -> StoreResult<()> {
    let verdict: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    match verdict.as_str() {
        "ok" => Ok(()),
        damage => Err(ChannelStoreError::Damaged(damage.to_owned())),
    }
}

fn create_file(path: &Path) -> StoreResult<Connection> {
    let _lock = lock_creation(path)?;
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    // SQLite gives its files next to it the same permissions.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // The file exists already, or SQLite reports the same error.
    let _ = options.open(path);
    let mut conn = open(path)?;
    create_tables(&mut conn)?;
    Ok(conn)
}

fn open(path: &Path) -> StoreResult<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    // Before the version is read: the first access of a damaged file finds the damage.
    conn.pragma_update(None, "synchronous", "FULL")?;
    Ok(conn)
}

fn create_tables(conn: &mut Connection) -> StoreResult<()> {
    // Another process may have created them while this one waited for the lock.
    if check_version(conn)? == VERSION {
        return Ok(());
    }
    conn.pragma_update(None, "journal_mode", "WAL")?;
    let made = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    made.execute_batch(SCHEMA)?;
    made.pragma_update(None, "user_version", VERSION)?;
    made.commit()?;
    Ok(())
}

/// Returns the version of the schema, 0 for a file without tables.
fn check_version(conn: &Connection) -> StoreResult<i64> {
    // Both are read in one snapshot, as another connection may create the tables in between.
    let snapshot = conn.unchecked_transaction()?;
    let found: i64 = snapshot.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found > VERSION {
        return Err(ChannelStoreError::Newer { found, supported: VERSION });
    }
    if found == 0 {
        // A database of another program also has version 0, but it has tables.
        let tables = "SELECT count(*) FROM sqlite_master";
        if snapshot.query_row(tables, [], |row| row.get::<_, i64>(0))? > 0 {
            return Err(ChannelStoreError::Damaged("it belongs to another program".to_owned()));
        }
    }
    Ok(found)
}

/// Locks the creation of the file against other processes.
fn lock_creation(path: &Path) -> StoreResult<File> {
    let to_error = |error: std::io::Error| ChannelStoreError::Io(error.to_string());
    if let Some(directory) = path.parent() {
        create_private_dir(directory).map_err(to_error)?;
    }
    let lock = with_suffix(path, ".lock");
    let file = File::options().create(true).append(true).open(&lock).map_err(to_error)?;
    file.lock().map_err(to_error)?;
    Ok(file)
}
