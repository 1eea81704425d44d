//! Everything that is kept in the database, and the only place with SQL.
//!
//! A [`LedgerDatabase`] is opened for one piece of work, under the lock of the data directory, and closed again.
//! All reading and writing goes through a transaction, [`LedgerTransaction`], whose methods lie in one file per
//! table. Nothing outside this module knows that it is SQLite.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use skill_format::Digest;
use ulid::Ulid;

use crate::fault;
use crate::ledger::{LedgerError, LedgerErrorKind};

mod activations;
mod approvals;
mod audit;
mod catalog;
mod created;
mod intents;
mod proposals;
mod prune;
mod schema;
mod vectors;
mod versions;

pub(crate) use audit::NewAuditEntry;
pub(crate) use created::CreatedSkillRow;
pub(crate) use intents::{ChangeIntent, IntentFile};
pub(crate) use proposals::StoredProposal;
pub(crate) use versions::{NewVersion, StoredVersion};

type DbResult<T, E = LedgerError> = std::result::Result<T, E>;

/// The database file's name in the data directory.
pub(crate) const FILE: &str = "registry.sqlite3";

/// The value of `auto_vacuum` of a database that gives pages back.
const INCREMENTAL: u64 = 2;

/// An open database.
#[derive(Debug)]
pub(crate) struct LedgerDatabase {
    conn: Connection,
}

/// What every change is stamped with.
#[derive(Clone, Debug)]
pub(crate) struct ChangeStamp {
    /// Milliseconds since 1970.
    pub(crate) now_ms: i64,
    /// Which copy of the program makes the change.
    pub(crate) instance: String,
}

/// A transaction; what is not committed is as if it had not been.
pub(crate) struct LedgerTransaction<'c> {
    tx: Transaction<'c>,
    stamp: &'c ChangeStamp,
}

impl LedgerDatabase {
    /// Opens the database, made if it is not there; tells whether nothing was ever done with it.
    ///
    /// With `suspect`, every page is examined first.
    pub(crate) fn open(path: &Path, wait: Duration, suspect: bool) -> DbResult<(Self, bool)> {
        step("db.open")?;
        make_private_file(path);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut conn = Connection::open_with_flags(path, flags)?;
        conn.busy_timeout(wait)?;
        let version = version(&conn)?;
        if suspect && let Some(verdict) = damage(&conn)? {
            return Err(LedgerError::corrupt(format!("the database is damaged: {verdict}")));
        }
        if version == 0 {
            let foreign = "SELECT count(*) FROM sqlite_master";
            if conn.query_row(foreign, [], |row| row.get::<_, i64>(0))? > 0 {
                return Err(LedgerError::corrupt("the database is not the registry's".to_owned()));
            }
        }
        if version == 0 {
            // Before the first page: what is removed later can be given back piece by piece.
            conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        }
        conn.pragma_update(None, "journal_mode", "WAL")?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        conn.pragma_update(None, "foreign_keys", true)?;
        if version < schema::LATEST {
            step("db.migrate")?;
            schema::MIGRATIONS.to_latest(&mut conn).map_err(|error| match error {
                rusqlite_migration::Error::RusqliteError { err, .. } => err.into(),
                other => LedgerError::database(
                    LedgerErrorKind::Database,
                    format!("the database cannot be brought up to date: {other}"),
                    "report it with this message",
                ),
            })?;
        }
        let used = "SELECT EXISTS (SELECT 1 FROM audit)";
        let used: bool = conn.query_row(used, [], |row| row.get(0))?;
        Ok((Self { conn }, !used))
    }

    /// Opens the database for reading as it is on the disk: nothing is made beside it. Returns `None`
    /// for one that first has to be brought up to date, or that its last writer did not close.
    pub(crate) fn open_unchanging(path: &Path) -> DbResult<Option<Self>> {
        let [wal, _] = sidecar_paths(path);
        if wal.symlink_metadata().is_ok_and(|found| found.len() > 0) {
            return Ok(None);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(unchanging_uri(path), flags)?;
        // The file may be a stranger's.
        conn.pragma_update(None, "trusted_schema", false)?;
        conn.pragma_update(None, "cell_size_check", true)?;
        let current = version(&conn)? == schema::LATEST;
        Ok(current.then_some(Self { conn }))
    }

    /// Does something in a transaction and commits it, unless it fails.
    pub(crate) fn write<T>(
        &mut self,
        stamp: &ChangeStamp,
        work: impl FnOnce(&LedgerTransaction<'_>) -> DbResult<T>,
    ) -> DbResult<T> {
        step("db.begin")?;
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let tx = LedgerTransaction { tx, stamp };
        let done = work(&tx)?;
        step("db.commit")?;
        tx.tx.commit()?;
        Ok(done)
    }

    /// Removes something in a transaction and commits it; with `dry_run` it is taken back.
    pub(crate) fn prune<T>(
        &mut self,
        stamp: &ChangeStamp,
        dry_run: bool,
        work: impl FnOnce(&LedgerTransaction<'_>) -> DbResult<T>,
    ) -> DbResult<T> {
        step("db.begin")?;
        self.conn.pragma_update(None, "temp_store", "MEMORY")?;
        // What is removed was found by the references to it; SQLite would look for each again, in
        // tables without an index for that.
        self.conn.pragma_update(None, "foreign_keys", false)?;
        let done = {
            let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let tx = LedgerTransaction { tx, stamp };
            let done = work(&tx)?;
            if dry_run {
                tx.tx.rollback()?;
            } else {
                step("db.commit")?;
                tx.tx.commit()?;
            }
            done
        };
        self.conn.pragma_update(None, "foreign_keys", true)?;
        Ok(done)
    }

    /// Gives free pages back to the file system, if they make so many bytes.
    pub(crate) fn shrink(&mut self, min_free: u64) -> DbResult<()> {
        let pragma = |name: &str| -> DbResult<u64> {
            Ok(self.conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0))? as u64)
        };
        let free = pragma("freelist_count")?.saturating_mul(pragma("page_size")?);
        if free == 0 || free < min_free {
            return Ok(());
        }
        if pragma("auto_vacuum")? == INCREMENTAL {
            let mut statement = self.conn.prepare("PRAGMA incremental_vacuum")?;
            let mut rows = statement.query([])?;
            while rows.next()?.is_some() {}
        } else {
            // Earlier versions made databases that have to be rewritten whole, once.
            self.conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
            self.conn.execute_batch("VACUUM")?;
        }
        self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }

    /// Reads one consistent state.
    pub(crate) fn read<T>(
        &mut self,
        stamp: &ChangeStamp,
        work: impl FnOnce(&LedgerTransaction<'_>) -> DbResult<T>,
    ) -> DbResult<T> {
        let tx = LedgerTransaction { tx: self.conn.transaction()?, stamp };
        work(&tx)
    }

    /// Tells what `PRAGMA integrity_check` finds.
    #[cfg(test)]
    pub(crate) fn integrity_report(&self) -> DbResult<String> {
        Ok(self.conn.pragma_query_value(None, "integrity_check", |row| row.get(0))?)
    }
}

/// Returns the version of a database; one of a newer program is an error.
fn version(conn: &Connection) -> DbResult<i64> {
    let version: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version > schema::LATEST {
        return Err(LedgerError::database(
            LedgerErrorKind::Newer,
            format!(
                "the database has version {version}, this program knows up to {}",
                schema::LATEST
            ),
            "use the newer program that wrote it; nothing was touched",
        ));
    }
    Ok(version)
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

/// Examines every page; says what is wrong. The catalog's words do not count: they can be made again
/// at any time, and whoever meets the damage does that.
fn damage(conn: &Connection) -> DbResult<Option<String>> {
    let mut statement = conn.prepare("PRAGMA quick_check")?;
    let found = statement.query_map([], |row| row.get::<_, String>(0))?;
    let found: Vec<String> = found.collect::<rusqlite::Result<_>>()?;
    let spared = |line: &String| line == "ok" || line.contains(schema::CATALOG_WORDS);
    Ok(found.into_iter().find(|line| !spared(line)))
}

/// The files that SQLite keeps beside a database.
pub(crate) fn sidecar_paths(path: &Path) -> [PathBuf; 2] {
    ["-wal", "-shm"].map(|suffix| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    })
}

impl LedgerTransaction<'_> {
    /// Returns the time of the transaction.
    pub(crate) fn now_ms(&self) -> i64 {
        self.stamp.now_ms
    }

    /// Makes an id that sorts after all ids of this database, also where the clock went back.
    pub(crate) fn new_id(&self) -> DbResult<String> {
        let last: Option<String> =
            self.tx.query_row("SELECT last FROM ids", [], |row| row.get(0)).optional()?;
        let last = last.and_then(|last| Ulid::from_string(&last).ok()).unwrap_or(Ulid::nil());
        let now = u64::try_from(self.stamp.now_ms).unwrap_or(0);
        let random = |ms| Ulid::from_parts(ms, Ulid::generate().random());
        let id = if now > last.timestamp_ms() {
            random(now)
        } else {
            last.increment().unwrap_or_else(|_| random(last.timestamp_ms() + 1))
        };
        self.keep_last(&id.to_string())?;
        Ok(id.to_string())
    }

    /// Lets new ids sort after this one too.
    pub(crate) fn advance_ids_past(&self, id: &str) -> DbResult<()> {
        let last: Option<String> =
            self.tx.query_row("SELECT last FROM ids", [], |row| row.get(0)).optional()?;
        if last.is_none_or(|last| *last < *id) {
            self.keep_last(id)?;
        }
        Ok(())
    }

    fn keep_last(&self, id: &str) -> DbResult<()> {
        self.tx.execute("INSERT OR REPLACE INTO ids (one, last) VALUES (1, ?1)", [id])?;
        Ok(())
    }
}

/// Passes a failpoint.
fn step(name: &'static str) -> DbResult<()> {
    fault::failpoint(name).map_err(|error| {
        LedgerError::database(
            LedgerErrorKind::Io,
            format!("the database failed: {error}"),
            "try again",
        )
    })
}

impl From<rusqlite::Error> for LedgerError {
    fn from(error: rusqlite::Error) -> Self {
        let told = |reason, message: String, hint: &str| Self::database(reason, message, hint);
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::corrupt(format!("the database is damaged: {error}"))
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => told(
                LedgerErrorKind::Locked,
                "the database is locked by another program".to_owned(),
                "close the program that has it open, then try again",
            ),
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                told(
                    LedgerErrorKind::Io,
                    format!("the database cannot be written: {error}"),
                    "give the process permission to write the file and its directory",
                )
                .refused_to_write()
            }
            Some(ErrorCode::DiskFull) => told(
                LedgerErrorKind::Io,
                "the database cannot be written: the disk is full".to_owned(),
                "make room on the disk and try again",
            ),
            Some(ErrorCode::SystemIoFailure) => told(
                LedgerErrorKind::Io,
                format!("the database cannot be read or written: {error}"),
                "the disk needs attention",
            ),
            _ => told(
                LedgerErrorKind::Database,
                format!("the database failed: {error}"),
                "report it with this message",
            ),
        }
    }
}

/// A digest as the database keeps it.
#[derive(Clone, Copy, Debug)]
struct SqlDigest(Digest);

impl ToSql for SqlDigest {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(self.0.as_bytes())))
    }
}

impl FromSql for SqlDigest {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let bytes: [u8; 32] = value.as_blob()?.try_into().map_err(|_| FromSqlError::InvalidType)?;
        Ok(Self(Digest::from(bytes)))
    }
}

/// A value as the database keeps it: JSON.
#[derive(Clone, Debug)]
struct SqlJson<T>(T);

impl<T: Serialize> ToSql for SqlJson<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let text = serde_json::to_string(&self.0)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        Ok(text.into())
    }
}

impl<T: DeserializeOwned> FromSql for SqlJson<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let value = serde_json::from_str(value.as_str()?);
        value.map(Self).map_err(|error| FromSqlError::Other(error.into()))
    }
}

/// A path as the database keeps it: bytes.
fn path_bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_encoded_bytes().to_vec()
}

#[cfg(unix)]
fn path_of(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(not(unix))]
fn path_of(bytes: Vec<u8>) -> PathBuf {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

#[cfg(test)]
mod tests;
