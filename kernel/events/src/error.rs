//! The errors of the journal.

use std::borrow::Cow;

use skillhost_payload::{CallError, ErrorKind, OperatorCommand};

/// An error of a journal operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct JournalError {
    kind: JournalErrorKind,
    message: String,
    hint: Cow<'static, str>,
}

/// The kind of a journal error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalErrorKind {
    /// The event is not valid.
    Invalid,
    /// The event's payload exceeds the limit.
    TooLarge,
    /// The delivery does not exist.
    NotFound,
    /// A newer program wrote the file.
    Newer,
    /// Another program has locked the file.
    Locked,
    /// The file or its disk failed.
    Io,
    /// The file is damaged, or not a journal.
    Corrupt,
    /// Any other error of the database.
    Database,
}

impl JournalError {
    pub(crate) fn new(
        kind: JournalErrorKind,
        message: impl Into<String>,
        hint: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { kind, message: message.into(), hint: hint.into() }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> JournalErrorKind {
        self.kind
    }

    /// Returns the remedy, as an imperative; may be empty.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.hint
    }

    pub(crate) fn io(operation: &str, error: &std::io::Error) -> Self {
        let message = format!("the event journal: {operation}: {error}");
        Self::new(JournalErrorKind::Io, message, "free disk space, or correct the permissions")
    }

    pub(crate) fn unknown_dead_letter(delivery: i64) -> Self {
        let message = format!("dead letter {delivery} not found");
        let hint = format!("see: {}", OperatorCommand::ListDeadLetters);
        Self::new(JournalErrorKind::NotFound, message, hint)
    }

    pub(crate) fn worker_stopped() -> Self {
        // The thread ends early only by a panic, which is a bug.
        let message = "the event journal's thread has stopped";
        Self::new(JournalErrorKind::Database, message, "report this error")
    }
}

impl From<JournalError> for CallError {
    fn from(error: JournalError) -> Self {
        let kind = match error.kind() {
            JournalErrorKind::Invalid => ErrorKind::InvalidArgument,
            JournalErrorKind::TooLarge => ErrorKind::TooLarge,
            JournalErrorKind::NotFound => ErrorKind::NotFound,
            JournalErrorKind::Locked => ErrorKind::Unavailable,
            JournalErrorKind::Io | JournalErrorKind::Corrupt => ErrorKind::Io,
            JournalErrorKind::Newer | JournalErrorKind::Database => ErrorKind::Failed,
        };
        Self::new(kind, error.to_string()).with_hint(error.hint())
    }
}
