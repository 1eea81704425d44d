//! The calls of an extension into the kernel, for the loaders of other kinds than libraries.

use std::sync::Arc;

use futures::future::BoxFuture;
use skillhost_payload::CallError;

/// The kernel's side of the calls of one extension.
pub(crate) trait HostCalls: Send + Sync {
    /// Calls a host method.
    fn call_host<'a>(
        &'a self,
        method: &'a str,
        payload: &'a [u8],
    ) -> BoxFuture<'a, Result<Vec<u8>, CallError>>;
}

/// The calls that one extension may make into the kernel; cheap to clone.
#[derive(Clone)]
pub struct ExtensionCalls(Arc<dyn HostCalls>);

impl ExtensionCalls {
    pub(crate) fn new(calls: Arc<dyn HostCalls>) -> Self {
        Self(calls)
    }

    /// Calls a host method in the name of the extension, with the checks for a library.
    ///
    /// # Errors
    /// The error of the method; [`ErrorKind::Unavailable`](skillhost_payload::ErrorKind) while the
    /// extension is loaded or the kernel shuts down.
    pub fn call<'a>(
        &'a self,
        method: &'a str,
        payload: &'a [u8],
    ) -> BoxFuture<'a, Result<Vec<u8>, CallError>> {
        self.0.call_host(method, payload)
    }
}
