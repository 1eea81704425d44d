//! Why the journal could not do what it was asked for.

use rusqlite::ErrorCode;

/// Why the journal could not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct JournalError {
    kind: JournalErrorKind,
    message: String,
    hint: &'static str,
}

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalErrorKind {
    /// The event cannot be kept as it is.
    Invalid,
    /// The event's payload is over the limit.
    TooLarge,
    /// No such delivery.
    NotFound,
    /// A newer program wrote the file.
    Newer,
    /// Another program holds the file.
    Locked,
    /// The file or its disk failed.
    Io,
    /// The file is damaged, or not a journal.
    Corrupt,
    /// Anything else.
    Database,
}

impl JournalError {
    pub(crate) fn new(
        kind: JournalErrorKind,
        message: impl Into<String>,
        hint: &'static str,
    ) -> Self {
        Self { kind, message: message.into(), hint }
    }

    /// The kind of failure.
    #[must_use]
    pub fn kind(&self) -> JournalErrorKind {
        self.kind
    }

    /// What to do about it; may be empty.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        self.hint
    }

    pub(crate) fn io(what: &str, error: &std::io::Error) -> Self {
        let message = format!("the event journal: {what}: {error}");
        Self::new(JournalErrorKind::Io, message, "make room, or correct the permissions")
    }

    pub(crate) fn no_dead(delivery: i64) -> Self {
        let message = format!("no dead delivery {delivery}");
        Self::new(JournalErrorKind::NotFound, message, "see: skillhost events dead")
    }

    pub(crate) fn ended() -> Self {
        Self::new(JournalErrorKind::Database, "the event journal's thread ended", "report it")
    }
}

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
