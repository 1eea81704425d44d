//! The error an extension returns.

use skillhost_contract::payload::ErrorKind;

/// What went wrong, in a form a model or a person can act on.
///
/// The kind and the hint reach the caller; a tool's error goes to the model and does not end the
/// turn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExtensionError {
    kind: ErrorKind,
    message: String,
    hint: String,
}

/// The result of everything an extension does.
pub type Result<T, E = ExtensionError> = std::result::Result<T, E>;

impl ExtensionError {
    /// Makes an error of a kind, with a message that reads after "failed:".
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: String::new() }
    }

    /// Makes an error of kind [`ErrorKind::Failed`].
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, message)
    }

    /// Makes an error of kind [`ErrorKind::NotFound`].
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// Makes an error of kind [`ErrorKind::InvalidArgument`].
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// The kind of failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What went wrong.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it; empty when there is nothing to say.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

impl From<std::io::Error> for ExtensionError {
    fn from(error: std::io::Error) -> Self {
        Self::new(ErrorKind::Io, error.to_string())
    }
}
