//! The file, and the only place with SQL: one submodule per concern.
//!
//! Everything is done in a transaction. Only an append waits for the disk: whatever else is lost
//! with the power is done again, in the order in which it was done before.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Row, Transaction, TransactionBehavior};
use serde_json::value::RawValue;

use crate::error::{JournalError, JournalErrorKind};
use crate::event::StoredEvent;

mod append;
mod deliveries;
mod failure;
mod peek;
mod planning;
mod prune;
mod schedules;
mod schema;

pub(crate) type JournalResult<T, E = JournalError> = std::result::Result<T, E>;

/// How long another process may hold the file.
const WAIT: Duration = Duration::from_secs(5);

/// The columns of [`event_of`].
const EVENT: &str = "e.id, e.at_ms, e.topic, e.source, e.payload, e.correlation_id, e.key";

/// An open journal file.
#[derive(Debug)]
pub(crate) struct JournalStore {
    conn: Connection,
    /// `PRAGMA data_version` when it was last looked at.
    seen: i64,
}

impl JournalStore {
    /// Opens a file that is up to date; nothing where it first has to be made or migrated.
    ///
    /// One that lies where nothing can be written is opened for reading; writes to it fail.
    pub(crate) fn open_current(path: &Path) -> JournalResult<Option<Self>> {
        let opened = connect(path, OpenFlags::empty());
        let opened = opened.and_then(|conn| version(&conn).map(|version| (conn, version)));
        let (conn, version) = match opened {
            Err(error) if error.kind() == JournalErrorKind::Io && !path.exists() => {
                return Ok(None);
            }
            Err(error) if peek::is_unwritable(&error, path) => {
                // The first error says what is wrong with the place.
                let conn = peek::peek(path).map_err(|_| error)?;
                let version = version(&conn)?;
                (conn, version)
            }
            other => other?,
        };
        match version {
            schema::LATEST => Self::from_connection(conn).map(Some),
            newer if newer > schema::LATEST => Err(JournalError::new(
                JournalErrorKind::Newer,
                format!(
                    "the event journal has version {newer}, this program knows up to {}",
                    schema::LATEST
                ),
                "use the newer program that wrote it; nothing was touched",
            )),
            _ => Ok(None),
        }
    }

    /// Opens a file, made or migrated where needed. One process at a time may do that.
    pub(crate) fn open_or_make(path: &Path) -> JournalResult<Self> {
        if let Some(store) = Self::open_current(path)? {
            return Ok(store);
        }
        make_private_file(path);
        let mut conn = connect(path, OpenFlags::SQLITE_OPEN_CREATE)?;
        if version(&conn)? == 0 {
            let tables = "SELECT count(*) FROM sqlite_master";
            if conn.query_row(tables, [], |row| row.get::<_, i64>(0))? > 0 {
                return Err(corrupt("the file is not an event journal"));
            }
        }
        conn.pragma_update(None, "journal_mode", "WAL")?;
        schema::MIGRATIONS.to_latest(&mut conn).map_err(|error| match error {
            rusqlite_migration::Error::RusqliteError { err, .. } => err.into(),
            other => JournalError::new(
                JournalErrorKind::Database,
                format!("the event journal cannot be brought up to date: {other}"),
                "report it with this message",
            ),
        })?;
        Self::from_connection(conn)
    }

    fn from_connection(conn: Connection) -> JournalResult<Self> {
        conn.pragma_update(None, "foreign_keys", true)?;
        Ok(Self { conn, seen: -1 })
    }

    /// Examines every page.
    ///
    /// # Errors
    /// [`JournalErrorKind::Corrupt`] with what was found.
    pub(crate) fn check_integrity(&self) -> JournalResult<()> {
        let verdict: String = self.conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        match verdict.as_str() {
            "ok" => Ok(()),
            damage => Err(corrupt(damage)),
        }
    }

    /// Whether another connection changed the file since this was last asked; true at first.
    pub(crate) fn changed_elsewhere(&mut self) -> JournalResult<bool> {
        let now = self.conn.pragma_query_value(None, "data_version", |row| row.get(0))?;
        Ok(std::mem::replace(&mut self.seen, now) != now)
    }

    /// Does something in a transaction that is on the disk when this returns.
    fn write<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> JournalResult<T>,
    ) -> JournalResult<T> {
        self.transact("FULL", work)
    }

    /// Does something in a transaction that survives the end of the process, but perhaps not that of
    /// the machine.
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
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let done = work(&tx)?;
        tx.commit()?;
        Ok(done)
    }
}

/// Makes an empty file that only its owner can read, if there is none: what SQLite keeps beside it
/// gets the same permissions.
fn make_private_file(path: &Path) {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // It is there already, or SQLite meets the same error and tells it.
    let _ = options.open(path);
}

fn connect(path: &Path, more: OpenFlags) -> JournalResult<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(WAIT)?;
    Ok(conn)
}

fn version(conn: &Connection) -> JournalResult<i64> {
    Ok(conn.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

fn corrupt(what: &str) -> JournalError {
    JournalError::new(
        JournalErrorKind::Corrupt,
        format!("the event journal is damaged: {what}"),
        "it is put aside when the next event is kept",
    )
}

/// Reads the columns of [`EVENT`].
fn event_of(row: &Row<'_>) -> rusqlite::Result<StoredEvent> {
    let id = row.get(0)?;
    let payload: String = row.get(4)?;
    let payload = RawValue::from_string(payload).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(4, rusqlite::types::Type::Text, error.into())
    })?;
    let correlation_id: Option<String> = row.get(5)?;
    Ok(StoredEvent {
        id,
        at_ms: unsigned(row.get(1)?),
        topic: row.get(2)?,
        source: row.get(3)?,
        payload,
        correlation_id: correlation_id.unwrap_or_else(|| format!("event-{id}")),
        key: row.get(6)?,
    })
}

/// A time as the file keeps it.
fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// A time as callers know it.
fn unsigned(ms: i64) -> u64 {
    u64::try_from(ms).unwrap_or(0)
}
