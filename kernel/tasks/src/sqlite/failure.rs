//! The conversion of SQLite's errors.

use rusqlite::ErrorCode;

use crate::error::{QueueError, QueueErrorKind};

/// The remedy for a damaged file.
// The file is never replaced: without its keys, effects would happen twice.
const DAMAGE_HINT: &str = "restore `work.db` from a backup; or move it away together with \
    `work.db-wal` and `work.db-shm`, which forgets all tasks, keys and recorded effects";

impl From<rusqlite::Error> for QueueError {
    fn from(error: rusqlite::Error) -> Self {
        let queue_error = |kind, state: &str, hint: &'static str| {
            Self::new(kind, format!("the task store {state}: {error}"), hint)
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                damage_error(&error.to_string())
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => queue_error(
                QueueErrorKind::Locked,
                "is locked by another program",
                "close the program that has it open, then try again",
            ),
            // SQLite reports a missing permission as any of the three.
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                queue_error(
                    QueueErrorKind::Io,
                    "cannot be written",
                    "give the process permission to write the file and its directory",
                )
            }
            Some(ErrorCode::DiskFull) => {
                queue_error(QueueErrorKind::Io, "cannot be written", "free disk space")
            }
            Some(ErrorCode::SystemIoFailure) => {
                queue_error(QueueErrorKind::Io, "cannot be read or written", "check the disk")
            }
            _ => match error {
                // A stored value that the program did not write.
                rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
                | rusqlite::Error::InvalidColumnType(..) => damage_error(&error.to_string()),
                _ => queue_error(QueueErrorKind::Database, "failed", "report this error"),
            },
        }
    }
}

/// Creates the error of a damaged file.
pub(super) fn damage_error(damage: &str) -> QueueError {
    let message = format!("the task store is damaged: {damage}");
    QueueError::new(QueueErrorKind::Corrupt, message, DAMAGE_HINT)
}

/// Creates the error of a failed file operation.
pub(super) fn io_error(operation: &str, error: &std::io::Error) -> QueueError {
    let message = format!("the task store: {operation}: {error}");
    QueueError::new(QueueErrorKind::Io, message, "free disk space, or correct the permissions")
}

/// Creates the error of a thread that has ended.
pub(super) fn thread_error() -> QueueError {
    // A thread ends early only by a panic, which is a bug.
    let message = "a thread of the task store has stopped";
    QueueError::new(QueueErrorKind::Database, message, "report this error")
}

/// Returns whether an error comes from the store, and not from the state machine: the transaction
/// then has to be rolled back.
pub(super) fn is_store_error(error: &QueueError) -> bool {
    matches!(
        error.kind(),
        QueueErrorKind::Newer
            | QueueErrorKind::Locked
            | QueueErrorKind::Io
            | QueueErrorKind::Corrupt
            | QueueErrorKind::Database
    )
}
