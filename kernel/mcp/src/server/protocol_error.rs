//! Errors as the protocol has them.

use rmcp::model::{ErrorCode, ErrorData};
use skillhost_payload::ErrorKind;

use crate::backend::BackendError;

/// Converts a backend error to a protocol error; an unknown name is an invalid parameter.
pub(super) fn to_protocol_error(error: &BackendError) -> ErrorData {
    let code = match error.kind {
        ErrorKind::NotFound
        | ErrorKind::InvalidArgument
        | ErrorKind::Denied
        | ErrorKind::TooLarge => ErrorCode::INVALID_PARAMS,
        _ => ErrorCode::INTERNAL_ERROR,
    };
    let data = serde_json::json!({ "kind": error.kind, "hint": error.hint });
    ErrorData::new(code, error.message.clone(), Some(data))
}

/// Converts a backend error about a resource to a protocol error.
///
/// An unknown resource has its own code, which the library replaces for clients of the newest
/// version.
pub(super) fn resource_error(error: &BackendError) -> ErrorData {
    let data = to_protocol_error(error);
    match error.kind {
        ErrorKind::NotFound => ErrorData { code: ErrorCode::RESOURCE_NOT_FOUND, ..data },
        _ => data,
    }
}

/// Returns the error for a resource that does not exist or is hidden from this client.
pub(super) fn unknown_resource(uri: &str) -> ErrorData {
    ErrorData { code: ErrorCode::RESOURCE_NOT_FOUND, ..unknown_parameter_error("resource", uri) }
}

/// Returns the error for a parameter whose value does not exist or is hidden from this client.
pub(super) fn unknown_parameter_error(subject: &str, name: &str) -> ErrorData {
    // The name comes from the client; the error must not return megabytes of it.
    let name: String = name.chars().take(256).collect();
    let message = format!("{subject} {name:?} not found");
    ErrorData::invalid_params(message, Some(serde_json::json!({ "kind": ErrorKind::NotFound })))
}
