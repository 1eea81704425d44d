//! Kinds of errors and the error of a call.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of an error; the wire name is the variant in snake case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The named object does not exist.
    NotFound,
    /// The arguments are not valid.
    InvalidArgument,
    /// The caller lacks the permission.
    Denied,
    /// The input or the result exceeds a limit.
    TooLarge,
    /// The state changed since the caller read it, or does not allow the call.
    Conflict,
    /// A file or device failed.
    Io,
    /// The call was cancelled.
    Cancelled,
    /// The callee panicked; the panic was contained.
    Panicked,
    /// The callee is not loaded or temporarily unavailable.
    Unavailable,
    /// The callee violated the contract.
    Protocol,
    /// The callee exceeded its time limit.
    Timeout,
    /// A requirement of the named skill is not met.
    Ineligible,
    /// Any other error, and every kind that is unknown to this build.
    #[serde(other)]
    Failed,
}

impl ErrorKind {
    /// Returns whether the callee failed to answer in order, which no other call could avoid.
    #[must_use]
    pub fn is_fault(self) -> bool {
        matches!(self, Self::Panicked | Self::Protocol)
    }

    /// Every kind, in wire order.
    pub const ALL: [Self; 13] = [
        Self::NotFound,
        Self::InvalidArgument,
        Self::Denied,
        Self::TooLarge,
        Self::Conflict,
        Self::Io,
        Self::Cancelled,
        Self::Panicked,
        Self::Unavailable,
        Self::Protocol,
        Self::Timeout,
        Self::Ineligible,
        Self::Failed,
    ];

    /// Returns the wire name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::InvalidArgument => "invalid_argument",
            Self::Denied => "denied",
            Self::TooLarge => "too_large",
            Self::Conflict => "conflict",
            Self::Io => "io",
            Self::Cancelled => "cancelled",
            Self::Panicked => "panicked",
            Self::Unavailable => "unavailable",
            Self::Protocol => "protocol",
            Self::Timeout => "timeout",
            Self::Ineligible => "ineligible",
            Self::Failed => "failed",
        }
    }

    /// Parses a wire name; an unknown one is [`ErrorKind::Failed`].
    #[must_use]
    pub fn from_wire(name: &str) -> Self {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name).unwrap_or(Self::Failed)
    }
}

/// The error of a call into an extension, or of its call into the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallError {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The message.
    pub message: String,
    /// A hint; may be empty.
    pub hint: String,
}

impl CallError {
    /// Creates an error without a hint.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: String::new() }
    }

    /// Replaces the hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Adds a hint on a line of its own.
    #[must_use]
    pub fn with_extra_hint(mut self, hint: &str) -> Self {
        if !self.hint.is_empty() {
            self.hint.push('\n');
        }
        self.hint.push_str(hint);
        self
    }

    /// Creates the error of a reply that is not valid.
    #[must_use]
    pub fn protocol_error(error: &dyn fmt::Display) -> Self {
        Self::new(ErrorKind::Protocol, format!("the reply is not valid: {error}"))
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CallError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_kind_wire_names_round_trip() {
        for kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::from_wire(kind.as_str()), kind);
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{}\"", kind.as_str()));
        }
        assert_eq!(ErrorKind::from_wire("from the future"), ErrorKind::Failed);
    }
}
