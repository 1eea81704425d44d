//! One loaded extension as the kernel calls it, independent of its kind.

use std::ops::Deref;
use std::sync::Arc;

use skillhost_contract::payload::{CallContext, ErrorKind, ToolOutput, ToolSpec};

use crate::abi::{self, lifecycle};
use crate::error::CallError;
use crate::process::{PrivateDirectory, ProcessExtension};

/// The owner of an extension that drops it without blocking: the destructor of a library is its
/// author's code, and may block.
pub(crate) struct RemoteOwner(Option<Arc<ExtensionBackend>>);

impl RemoteOwner {
    pub(crate) fn new(remote: ExtensionBackend) -> Self {
        Self(Some(Arc::new(remote)))
    }

    /// Returns another owner, whose drop blocks in the destructor if it is the last one.
    pub(crate) fn share(&self) -> Arc<ExtensionBackend> {
        Arc::clone(self.0.as_ref().expect("taken only by drop"))
    }
}

impl Deref for RemoteOwner {
    type Target = ExtensionBackend;

    fn deref(&self) -> &ExtensionBackend {
        self.0.as_ref().expect("taken only by drop")
    }
}

impl Drop for RemoteOwner {
    fn drop(&mut self) {
        if let Some(last @ ExtensionBackend::Library(_)) = self.0.take().and_then(Arc::into_inner) {
            // If the system starts no thread, the closure is dropped here.
            let _ = std::thread::Builder::new().name("drop".to_owned()).spawn(move || drop(last));
        }
    }
}

/// The implementation of an extension.
pub(crate) enum ExtensionBackend {
    /// A library in this process.
    Library(abi::LibraryExtension),
    /// A separate process, which has only tools.
    Process {
        /// Stopped before its directory is removed.
        process: Arc<dyn ProcessExtension>,
        /// Its working directory.
        _folder: Arc<PrivateDirectory>,
    },
}

impl ExtensionBackend {
    pub(crate) fn has_tools(&self) -> bool {
        match self {
            Self::Library(library) => library.has_tools(),
            Self::Process { .. } => true,
        }
    }

    pub(crate) fn has_service(&self) -> bool {
        self.as_library().is_some_and(abi::LibraryExtension::has_service)
    }

    pub(crate) fn interfaces(&self) -> &[String] {
        self.as_library().map_or(&[], abi::LibraryExtension::interfaces)
    }

    pub(crate) async fn lifecycle(&self, operation: u8) -> Result<(), CallError> {
        match (self, operation) {
            (Self::Library(library), _) => library.lifecycle(operation).await,
            (Self::Process { process, .. }, lifecycle::HEALTH_CHECK) => process.health().await,
            (Self::Process { process, .. }, lifecycle::STOP) => {
                process.stop().await;
                Ok(())
            }
            // The process was started at its creation.
            (Self::Process { .. }, _) => Ok(()),
        }
    }

    pub(crate) async fn tools(&self, context: &CallContext) -> Result<Vec<ToolSpec>, CallError> {
        match self {
            Self::Library(library) => library.tools(context).await,
            Self::Process { process, .. } => process.tools().await,
        }
    }

    pub(crate) async fn invoke(
        &self,
        context: &CallContext,
        name: &str,
        arguments: &str,
    ) -> Result<ToolOutput, CallError> {
        match self {
            Self::Library(library) => library.invoke(context, name, arguments).await,
            Self::Process { process, .. } => process.invoke(context, name, arguments).await,
        }
    }

    /// Returns the extension's priority in the context chain, or `None` without a context provider.
    pub(crate) fn context_priority(&self) -> Result<Option<i32>, CallError> {
        self.as_library().map_or(Ok(None), abi::LibraryExtension::context_priority)
    }

    /// Starts the service. The future completes when the service ends.
    pub(crate) fn run_background(
        &self,
    ) -> Option<impl Future<Output = Result<(), CallError>> + Send + 'static> {
        self.as_library()?.run_background()
    }

    pub(crate) fn cancel_service(&self) {
        if let Some(library) = self.as_library() {
            library.cancel_service();
        }
    }

    pub(crate) async fn call(
        &self,
        interface: &str,
        method: &str,
        payload: Vec<u8>,
    ) -> Result<Vec<u8>, CallError> {
        match self {
            Self::Library(library) => library.call(interface, method, payload).await,
            Self::Process { .. } => Err(CallError::new(
                ErrorKind::Unavailable,
                format!("a process extension has no interface `{interface}`"),
            )),
        }
    }

    pub(crate) fn log_filter_changed(&self) {
        if let Some(library) = self.as_library() {
            library.log_filter_changed();
        }
    }

    /// Shuts the extension's runtime down. Blocks for at most `timeout_ms`, so it must not run on
    /// an async worker.
    pub(crate) fn shutdown_runtime(&self, timeout_ms: u64) {
        if let Some(library) = self.as_library() {
            library.shutdown_runtime(timeout_ms);
        }
    }

    pub(crate) fn as_library(&self) -> Option<&abi::LibraryExtension> {
        match self {
            Self::Library(library) => Some(library),
            Self::Process { .. } => None,
        }
    }
}
