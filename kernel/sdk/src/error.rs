//! The error that an extension returns.

use skillhost_payload::ErrorKind;

/// An error in a form that a model or a person can act on.
///
/// The kind and the hint reach the caller; a tool's error is sent to the model and does not end the
/// run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExtensionError {
    kind: ErrorKind,
    message: String,
    hint: String,
}

/// The result of every fallible operation of an extension.
pub type Result<T, E = ExtensionError> = std::result::Result<T, E>;

impl ExtensionError {
    /// Creates an error of a kind, with a message that reads after "failed:".
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: String::new() }
    }

    /// Creates an error of kind [`ErrorKind::Failed`].
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, message)
    }

    /// Creates an error of kind [`ErrorKind::NotFound`].
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// Creates an error of kind [`ErrorKind::InvalidArgument`].
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// Adds a hint: the remedy, as an imperative.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the hint; may be empty.
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
