//! The database of the ledger, and the only module with SQL.
//!
//! A [`LedgerDatabase`] is opened for one operation, under the lock of the data directory, and
//! closed again. All reads and writes go through a transaction, [`LedgerTransaction`], whose
//! methods lie in one file per table. Other modules do not depend on SQLite.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Params, Row, Transaction,
    TransactionBehavior,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use skill_format::Digest;
use skillhost_files::{assert_may_block, fault, sqlite_immutable_uri, with_suffix};
use ulid::Ulid;

use crate::records::error::{LedgerError, LedgerErrorKind};

mod activations;
mod approvals;
mod audit;
mod catalog;
mod created;
mod intents;
mod proposals;
mod prune;
mod schema;
mod usage;
mod vectors;
mod versions;

pub(crate) use audit::NewAuditEntry;
pub(crate) use created::CreatedSkillRow;
pub(crate) use intents::{ChangeIntent, IntentFile};
pub(crate) use proposals::StoredProposal;
pub(crate) use usage::count_reads;
pub(crate) use versions::{NewVersion, StoredVersion};

type DbResult<T, E = LedgerError> = std::result::Result<T, E>;

/// The database file's name in the data directory.
pub(crate) const FILE: &str = "registry.sqlite3";

/// The value of `auto_vacuum` for incremental vacuuming.
const INCREMENTAL: u64 = 2;

/// An open database.
#[derive(Debug)]
pub(crate) struct LedgerDatabase {
    conn: Connection,
}

/// The time and the instance that every change is stamped with.
#[derive(Clone, Debug)]
pub(crate) struct ChangeStamp {
    /// Milliseconds since 1970.
    pub(crate) now_ms: i64,
    /// The copy of the program that makes the change.
    pub(crate) instance: String,
}

/// A transaction; without a commit it has no effect.
pub(crate) struct LedgerTransaction<'c> {
    tx: Transaction<'c>,
    stamp: &'c ChangeStamp,
}

impl LedgerDatabase {
    /// Opens the database and creates it if it does not exist; also returns whether it is unused.
    ///
    /// With `suspect`, every page is checked first.
    pub(crate) fn open(path: &Path, wait: Duration, suspect: bool) -> DbResult<(Self, bool)> {
        pass_failpoint("db.open")?;
        make_private_file(path);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut conn = Connection::open_with_flags(path, flags)?;
        conn.busy_timeout(wait)?;
        let version = schema_version(&conn)?;
        if suspect && let Some(verdict) = find_damage(&conn)? {
            return Err(LedgerError::corrupt(format!("the database is damaged: {verdict}")));
        }
        if version == 0 {
            let foreign = "SELECT count(*) FROM sqlite_master";
            if conn.query_row(foreign, [], |row| row.get::<_, i64>(0))? > 0 {
                return Err(LedgerError::corrupt(
                    "the database belongs to another program".to_owned(),
                ));
            }
        }
        if version == 0 {
            // Before the first page is written: later it would require a rewrite of the file.
            conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        }
        // WAL lets readers of other processes go on while one writes; FULL syncs each commit, so
        // that an approved change survives a power loss.
        conn.pragma_update(None, "journal_mode", "WAL")?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        conn.pragma_update(None, "foreign_keys", true)?;
        if version < schema::LATEST {
            pass_failpoint("db.migrate")?;
            schema::MIGRATIONS.to_latest(&mut conn).map_err(|error| match error {
                rusqlite_migration::Error::RusqliteError { err, .. } => err.into(),
                other => LedgerError::database(
                    LedgerErrorKind::Database,
                    format!("the database cannot be migrated: {other}"),
                    "report it with this message",
                ),
            })?;
        }
        // Every change adds an entry to the audit log, which is never emptied.
        let used = "SELECT EXISTS (SELECT 1 FROM audit)";
        let used: bool = conn.query_row(used, [], |row| row.get(0))?;
        Ok((Self { conn }, !used))
    }

    /// Opens the database for reading as it is on the disk: no file is created next to it. Returns
    /// `None` if it first has to be migrated, or if its last writer did not close it.
    pub(crate) fn open_unchanging(path: &Path) -> DbResult<Option<Self>> {
        let [wal, _] = sidecar_paths(path);
        // Committed pages in the WAL are not part of an immutable database.
        if wal.symlink_metadata().is_ok_and(|found| found.len() > 0) {
            return Ok(None);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(sqlite_immutable_uri(path), flags)?;
        // The file may have been manipulated: its schema must not call functions with side effects.
        conn.pragma_update(None, "trusted_schema", false)?;
        conn.pragma_update(None, "cell_size_check", true)?;
        let current = schema_version(&conn)? == schema::LATEST;
        Ok(current.then_some(Self { conn }))
    }

    /// Runs `work` in a transaction and commits it, unless it fails.
    pub(crate) fn write<T>(
        &mut self,
        stamp: &ChangeStamp,
        work: impl FnOnce(&LedgerTransaction<'_>) -> DbResult<T>,
    ) -> DbResult<T> {
        pass_failpoint("db.begin")?;
        // Immediate: a deferred transaction could fail later, when it upgrades its lock.
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let tx = LedgerTransaction { tx, stamp };
        let done = work(&tx)?;
        pass_failpoint("db.commit")?;
        assert_may_block();
        tx.tx.commit()?;
        Ok(done)
    }

    /// Runs `work`, which removes data, in a transaction and commits it; with `dry_run` it is
    /// rolled back.
    pub(crate) fn prune<T>(
        &mut self,
        stamp: &ChangeStamp,
        dry_run: bool,
        work: impl FnOnce(&LedgerTransaction<'_>) -> DbResult<T>,
    ) -> DbResult<T> {
        pass_failpoint("db.begin")?;
        self.conn.pragma_update(None, "temp_store", "MEMORY")?;
        // The removed rows were found by the references to them; SQLite would search for each
        // again, in tables without an index for that.
        self.conn.pragma_update(None, "foreign_keys", false)?;
        let done = {
            let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let tx = LedgerTransaction { tx, stamp };
            let done = work(&tx)?;
            if dry_run {
                tx.tx.rollback()?;
            } else {
                pass_failpoint("db.commit")?;
                assert_may_block();
                tx.tx.commit()?;
            }
            done
        };
        self.conn.pragma_update(None, "foreign_keys", true)?;
        Ok(done)
    }

    /// Returns free pages to the file system if they have at least `min_free` bytes.
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
            // Each row frees one page.
            while rows.next()?.is_some() {}
        } else {
            // Databases of earlier versions require one complete rewrite.
            self.conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
            self.conn.execute_batch("VACUUM")?;
        }
        // The file only shrinks when the WAL is written back to it.
        self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }

    /// Runs `work` on one consistent state of the database.
    pub(crate) fn read<T>(
        &mut self,
        stamp: &ChangeStamp,
        work: impl FnOnce(&LedgerTransaction<'_>) -> DbResult<T>,
    ) -> DbResult<T> {
        let tx = LedgerTransaction { tx: self.conn.transaction()?, stamp };
        work(&tx)
    }

    /// Returns the result of `PRAGMA integrity_check`.
    #[cfg(test)]
    pub(crate) fn integrity_report(&self) -> DbResult<String> {
        Ok(self.conn.pragma_query_value(None, "integrity_check", |row| row.get(0))?)
    }
}

/// Returns the schema version of a database; a newer version than the known one is an error.
fn schema_version(conn: &Connection) -> DbResult<i64> {
    let version: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version > schema::LATEST {
        return Err(LedgerError::database(
            LedgerErrorKind::Newer,
            format!(
                "the database has version {version}, this program knows up to {}",
                schema::LATEST
            ),
            "use the newer program that wrote it; no data was changed",
        ));
    }
    Ok(version)
}

/// Creates an empty file that only its owner can read, if it does not exist: SQLite gives its
/// sidecar files the same permissions.
fn make_private_file(path: &Path) {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // It exists already, or SQLite fails with the same error and reports it.
    let _ = options.open(path);
}

/// Checks every page; returns the first damage found. Damage of the catalog is ignored: it can be
/// rebuilt at any time, and the reader that finds it does so.
fn find_damage(conn: &Connection) -> DbResult<Option<String>> {
    let mut statement = conn.prepare("PRAGMA quick_check")?;
    let found = statement.query_map([], |row| row.get::<_, String>(0))?;
    let found: Vec<String> = found.collect::<rusqlite::Result<_>>()?;
    let is_ignored = |line: &String| line == "ok" || line.contains(schema::CATALOG_WORDS);
    Ok(found.into_iter().find(|line| !is_ignored(line)))
}

/// Returns the paths of the files that SQLite keeps next to a database.
pub(crate) fn sidecar_paths(path: &Path) -> [PathBuf; 2] {
    ["-wal", "-shm"].map(|suffix| with_suffix(path, suffix))
}

impl LedgerTransaction<'_> {
    /// Returns the rows of a query, converted.
    fn select_rows<T>(
        &self,
        sql: &str,
        values: impl Params,
        convert: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> DbResult<Vec<T>> {
        let mut statement = self.tx.prepare(sql)?;
        let rows = statement.query_map(values, convert)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Returns the texts that a query selects, one a row.
    fn select_texts(&self, sql: &str, values: impl Params) -> DbResult<Vec<String>> {
        self.select_rows(sql, values, |row| row.get(0))
    }

    /// Returns the time of the transaction.
    pub(crate) fn now_ms(&self) -> i64 {
        self.stamp.now_ms
    }

    /// Creates an id that sorts after all ids of this database, also if the clock was set back.
    pub(crate) fn new_id(&self) -> DbResult<String> {
        let last: Option<String> =
            self.tx.query_row("SELECT last FROM ids", [], |row| row.get(0)).optional()?;
        let last = last.and_then(|last| Ulid::from_string(&last).ok()).unwrap_or(Ulid::nil());
        let now = u64::try_from(self.stamp.now_ms).unwrap_or(0);
        let random = |ms| Ulid::from_parts(ms, Ulid::generate().random());
        let id = if now > last.timestamp_ms() {
            // Later than every id: a random part keeps ids of several machines apart.
            random(now)
        } else {
            // The same millisecond or an earlier one: the last id plus one. It overflows only if
            // its random part was at its maximum.
            last.increment().unwrap_or_else(|_| random(last.timestamp_ms() + 1))
        };
        self.save_last_id(&id.to_string())?;
        Ok(id.to_string())
    }

    /// Ensures that new ids also sort after this one.
    pub(crate) fn advance_ids_past(&self, id: &str) -> DbResult<()> {
        let last: Option<String> =
            self.tx.query_row("SELECT last FROM ids", [], |row| row.get(0)).optional()?;
        if last.is_none_or(|last| *last < *id) {
            self.save_last_id(id)?;
        }
        Ok(())
    }

    fn save_last_id(&self, id: &str) -> DbResult<()> {
        self.tx.execute("INSERT OR REPLACE INTO ids (one, last) VALUES (1, ?1)", [id])?;
        Ok(())
    }
}

/// Passes a failpoint of the tests.
fn pass_failpoint(name: &'static str) -> DbResult<()> {
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
        let database = |reason, message: String, hint: &str| Self::database(reason, message, hint);
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::corrupt(format!("the database is damaged: {error}"))
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => database(
                LedgerErrorKind::Locked,
                "the database is locked by another program".to_owned(),
                "close the program that has it open, then try again",
            ),
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                database(
                    LedgerErrorKind::Io,
                    format!("the database cannot be written: {error}"),
                    "give the process permission to write the file and its directory",
                )
                .with_unwritable()
            }
            Some(ErrorCode::DiskFull) => database(
                LedgerErrorKind::Io,
                "the database cannot be written: the disk is full".to_owned(),
                "free space on the disk, then try again",
            ),
            Some(ErrorCode::SystemIoFailure) => database(
                LedgerErrorKind::Io,
                format!("the database cannot be read or written: {error}"),
                "check the disk, then try again",
            ),
            _ => database(
                LedgerErrorKind::Database,
                format!("the database failed: {error}"),
                "report it with this message",
            ),
        }
    }
}

/// A digest in the form of the database: 32 bytes.
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

/// A value in the form of the database: JSON.
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

/// Returns a path in the form of the database: bytes.
fn path_bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_encoded_bytes().to_vec()
}

#[cfg(unix)]
fn path_from_bytes(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(not(unix))]
fn path_from_bytes(bytes: Vec<u8>) -> PathBuf {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

#[cfg(test)]
mod tests;
