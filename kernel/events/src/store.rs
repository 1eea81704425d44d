//! The journal file and all SQL of the crate, with one submodule per concern.
//!
//! Every change is a transaction. Only operations whose loss a caller could notice wait for the
//! disk, such as an append: other changes lost in a power failure are repeated in the same order.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Row, Transaction, TransactionBehavior};
use serde_json::value::RawValue;

use crate::error::{JournalError, JournalErrorKind};
use crate::event::StoredEvent;

mod append;
mod deliveries;
mod failure;
mod planning;
mod prune;
mod read_only;
mod schedules;
mod schema;

/// The result of a journal operation.
pub(crate) type JournalResult<T, E = JournalError> = std::result::Result<T, E>;

/// The timeout for a lock that another process holds on the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The columns of [`event_from_row`].
const EVENT_COLUMNS: &str = "e.id, e.at_ms, e.topic, e.source, e.payload, e.correlation_id, e.key";

/// An open journal file.
#[derive(Debug)]
pub(crate) struct JournalStore {
    conn: Connection,
    /// The last observed `PRAGMA data_version`.
    data_version: i64,
}

impl JournalStore {
    /// Opens a file of the current version, or returns `None` if it must be created or migrated.
    ///
    /// A file in a read-only location is opened for reading; writes to it fail.
    pub(crate) fn open_current(path: &Path) -> JournalResult<Option<Self>> {
        let opened = open_connection(path, OpenFlags::empty());
        let opened = opened.and_then(|conn| schema_version(&conn).map(|version| (conn, version)));
        let (conn, version) = match opened {
            Err(error) if error.kind() == JournalErrorKind::Io && !path.exists() => {
                return Ok(None);
            }
            Err(error) if read_only::is_unwritable(&error, path) => {
                // The first error names the cause; the second one is only a consequence.
                let conn = read_only::open_read_only(path).map_err(|_| error)?;
                let version = schema_version(&conn)?;
                (conn, version)
            }
            other => other?,
        };
        match version {
            schema::LATEST_VERSION => Self::from_connection(conn).map(Some),
            newer if newer > schema::LATEST_VERSION => Err(JournalError::new(
                JournalErrorKind::Newer,
                format!(
                    "the event journal has version {newer}, this program supports up to {}",
                    schema::LATEST_VERSION
                ),
                "use the newer program that wrote it; the file is unchanged",
            )),
            _ => Ok(None),
        }
    }

    /// Opens a file and creates or migrates it if needed. The caller holds the lock.
    pub(crate) fn open_or_create(path: &Path) -> JournalResult<Self> {
        if let Some(store) = Self::open_current(path)? {
            return Ok(store);
        }
        create_private_file(path);
        let mut conn = open_connection(path, OpenFlags::SQLITE_OPEN_CREATE)?;
        // A database of another program also has version 0, but it has tables.
        if schema_version(&conn)? == 0 {
            let tables = "SELECT count(*) FROM sqlite_master";
            if conn.query_row(tables, [], |row| row.get::<_, i64>(0))? > 0 {
                return Err(corrupt_error("the file is not an event journal"));
            }
        }
        // WAL lets other processes read while one writes, and an append waits for one sync only.
        conn.pragma_update(None, "journal_mode", "WAL")?;
        schema::MIGRATIONS.to_latest(&mut conn).map_err(|error| match error {
            rusqlite_migration::Error::RusqliteError { err, .. } => err.into(),
            other => JournalError::new(
                JournalErrorKind::Database,
                format!("migration of the event journal failed: {other}"),
                "report this error",
            ),
        })?;
        Self::from_connection(conn)
    }

    fn from_connection(conn: Connection) -> JournalResult<Self> {
        // Off by default in SQLite; deliveries are deleted with their event.
        conn.pragma_update(None, "foreign_keys", true)?;
        // No version is negative, so the first query reports a change.
        Ok(Self { conn, data_version: -1 })
    }

    /// Checks every page.
    ///
    /// # Errors
    /// [`JournalErrorKind::Corrupt`] with the first damage.
    pub(crate) fn check_integrity(&self) -> JournalResult<()> {
        let verdict: String = self.conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        match verdict.as_str() {
            "ok" => Ok(()),
            damage => Err(corrupt_error(damage)),
        }
    }

    /// Returns whether another connection changed the file since the last call; at first `true`.
    pub(crate) fn has_external_changes(&mut self) -> JournalResult<bool> {
        let now = self.conn.pragma_query_value(None, "data_version", |row| row.get(0))?;
        Ok(std::mem::replace(&mut self.data_version, now) != now)
    }

    /// Runs `work` in a transaction that is durable when this returns.
    fn write<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> JournalResult<T>,
    ) -> JournalResult<T> {
        self.transact("FULL", work)
    }

    /// Runs `work` in a transaction that survives the process, but perhaps not a power failure.
    fn write_relaxed<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> JournalResult<T>,
    ) -> JournalResult<T> {
        self.transact("NORMAL", work)
    }

    fn transact<T>(
        &mut self,
        synchronous: &str,
        work: impl FnOnce(&Transaction<'_>) -> JournalResult<T>,
    ) -> JournalResult<T> {
        self.conn.pragma_update(None, "synchronous", synchronous)?;
        // Immediate: a transaction that starts with a read could not get the write lock later.
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let result = work(&tx)?;
        tx.commit()?;
        Ok(result)
    }
}

/// Creates an empty file that only its owner can read, if none exists.
// SQLite gives its files next to it the same permissions.
fn create_private_file(path: &Path) {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // The file exists already, or SQLite reports the same error.
    let _ = options.open(path);
}

fn open_connection(path: &Path, more: OpenFlags) -> JournalResult<Connection> {
    // Without SQLite's own mutex: a single thread uses the connection.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    Ok(conn)
}

fn schema_version(conn: &Connection) -> JournalResult<i64> {
    Ok(conn.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

fn corrupt_error(damage: &str) -> JournalError {
    JournalError::new(
        JournalErrorKind::Corrupt,
        format!("the event journal is damaged: {damage}"),
        "publish an event: the next append quarantines the file",
    )
}

/// Converts the columns of [`EVENT_COLUMNS`].
fn event_from_row(row: &Row<'_>) -> rusqlite::Result<StoredEvent> {
    let id = row.get(0)?;
    let payload: String = row.get(4)?;
    let payload = RawValue::from_string(payload).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(4, rusqlite::types::Type::Text, error.into())
    })?;
    let correlation_id: Option<String> = row.get(5)?;
    Ok(StoredEvent {
        id,
        at_ms: from_sql(row.get(1)?),
        topic: row.get(2)?,
        source: row.get(3)?,
        payload,
        // Not stored for the first event of a chain, because its id is unknown before the insert.
        correlation_id: correlation_id.unwrap_or_else(|| format!("event-{id}")),
        key: row.get(6)?,
    })
}

/// Converts a number to the form in the file, which has only signed integers.
fn to_sql(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// Converts a number from the form in the file.
fn from_sql(ms: i64) -> u64 {
    u64::try_from(ms).unwrap_or(0)
}
