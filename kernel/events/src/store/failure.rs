//! What SQLite's errors mean.

use rusqlite::ErrorCode;

use crate::error::{JournalError, JournalErrorKind};

impl From<rusqlite::Error> for JournalError {
    fn from(error: rusqlite::Error) -> Self {
        let told = |kind, what: &str, hint| {
            Self::new(kind, format!("the event journal {what}: {error}"), hint)
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => told(
                JournalErrorKind::Corrupt,
                "is damaged",
                "it is put aside when the next event is kept",
            ),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => told(
                JournalErrorKind::Locked,
                "is locked by another program",
                "close the program that has it open, then try again",
            ),
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                told(
                    JournalErrorKind::Io,
                    "cannot be written",
                    "give the process permission to write the file and its directory",
                )
            }
            Some(ErrorCode::DiskFull) => {
                told(JournalErrorKind::Io, "cannot be written", "make room on the disk")
            }
            Some(ErrorCode::SystemIoFailure) => {
                told(JournalErrorKind::Io, "cannot be read or written", "the disk needs attention")
            }
            _ => told(JournalErrorKind::Database, "failed", "report it with this message"),
        }
    }
}
