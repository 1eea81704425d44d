//! The conversion of SQLite's errors.

use rusqlite::ErrorCode;

use crate::error::{JournalError, JournalErrorKind};

impl From<rusqlite::Error> for JournalError {
    fn from(error: rusqlite::Error) -> Self {
        let journal_error = |kind, state: &str, hint| {
            Self::new(kind, format!("the event journal {state}: {error}"), hint)
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => journal_error(
                JournalErrorKind::Corrupt,
                "is damaged",
                "publish an event: the next append quarantines the file",
            ),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => journal_error(
                JournalErrorKind::Locked,
                "is locked by another program",
                "close the program that has it open, then try again",
            ),
            // SQLite reports a missing permission as any of the three.
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                journal_error(
                    JournalErrorKind::Io,
                    "cannot be written",
                    "give the process permission to write the file and its directory",
                )
            }
            Some(ErrorCode::DiskFull) => {
                journal_error(JournalErrorKind::Io, "cannot be written", "free disk space")
            }
            Some(ErrorCode::SystemIoFailure) => {
                journal_error(JournalErrorKind::Io, "cannot be read or written", "check the disk")
            }
            _ => journal_error(JournalErrorKind::Database, "failed", "report this error"),
        }
    }
}
