//! Errors of calls.

use skillhost_payload::{CallError, ErrorKind};

/// Returns an error without a hint.
pub(crate) fn call_error(kind: ErrorKind, message: impl Into<String>) -> CallError {
    CallError { kind, message: message.into(), hint: String::new() }
}
