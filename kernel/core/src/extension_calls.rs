//! The calls of an extension into the kernel, for the loaders of other kinds than libraries.

use std::sync::Arc;

use skillhost_payload::CallError;

use crate::callbacks::HostCallbacks;

/// The calls that one extension may make into the kernel; cheap to clone.
#[derive(Clone)]
pub struct ExtensionCalls(Arc<HostCallbacks>);

impl ExtensionCalls {
    pub(crate) fn new(callbacks: HostCallbacks) -> Self {
        Self(Arc::new(callbacks))
    }

    /// Calls a host method in the name of the extension, with the checks for a library.
    ///
    /// # Errors
    /// The error of the method; [`ErrorKind::Unavailable`](skillhost_payload::ErrorKind) while the
    /// extension is loaded or the kernel shuts down.
    pub async fn call(&self, method: &str, payload: &[u8]) -> Result<Vec<u8>, CallError> {
        self.0.call(method, payload).await
    }
}
