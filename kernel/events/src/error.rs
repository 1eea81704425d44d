//! Why the journal could not do what it was asked for.

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

    pub(crate) fn unknown_dead_letter(delivery: i64) -> Self {
        let message = format!("no dead delivery {delivery}");
        Self::new(JournalErrorKind::NotFound, message, "see: skillhost events dead")
    }

    pub(crate) fn worker_stopped() -> Self {
        Self::new(JournalErrorKind::Database, "the event journal's thread ended", "report it")
    }
}
