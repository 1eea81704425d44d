//! Conversion of values and errors to their form at the boundary.

use serde::Serialize;
use serde::de::DeserializeOwned;
use skillhost_contract::abi::FfiError;
use skillhost_payload::ErrorKind;

use crate::error::{ExtensionError, Result};

pub(crate) fn to_ffi(error: &ExtensionError) -> FfiError {
    FfiError {
        kind: error.kind().as_str().into(),
        message: error.message().into(),
        hint: error.hint().into(),
    }
}

pub(crate) fn from_ffi(error: &FfiError) -> ExtensionError {
    ExtensionError::new(ErrorKind::from_wire(&error.kind), error.message.as_str())
        .with_hint(error.hint.as_str())
}

pub(crate) fn to_bytes<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value)
        .map_err(|error| ExtensionError::new(ErrorKind::Protocol, error.to_string()))
}

pub(crate) fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes)
        .map_err(|error| ExtensionError::new(ErrorKind::Protocol, error.to_string()))
}
