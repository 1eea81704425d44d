//! The implementation of an extension as the kernel calls it, independent of its kind.

use std::any::Any;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use skillhost_control::LoadTimings;
use skillhost_home::GrantStatus;
use skillhost_payload::{BuildInfo, CallContext, CallError, ErrorKind, ToolOutput, ToolSpec};
use skillhost_sandbox::IsolationReport;

/// The asynchronous part of a request for a block of context.
pub type ContextReply = BoxFuture<'static, Result<Option<String>, CallError>>;

/// The implementation of an extension: a library, a process, or a part of the kernel.
///
/// The kernel applies all time limits; a dropped future cancels its call.
#[async_trait]
pub trait Plugin: Send + Sync {
    /// Returns whether it may list tools.
    fn has_tools(&self) -> bool {
        true
    }

    /// Returns whether its tools stay as listed when it was loaded.
    fn has_fixed_tools(&self) -> bool {
        false
    }

    /// Returns whether it has a background service.
    fn has_service(&self) -> bool {
        false
    }

    /// Returns whether it provides context.
    fn has_context(&self) -> bool {
        false
    }

    /// Returns whether its drop runs code that may block.
    fn blocks_on_drop(&self) -> bool {
        false
    }

    /// Returns its interfaces, such as `skill`.
    fn interfaces(&self) -> &[String] {
        &[]
    }

    /// Prepares it for its first call.
    async fn start(&self) -> Result<(), CallError> {
        Ok(())
    }

    /// Checks that it can work.
    async fn check_health(&self) -> Result<(), CallError> {
        Ok(())
    }

    /// Stops it, before its runtime is shut down.
    async fn stop(&self) -> Result<(), CallError> {
        Ok(())
    }

    /// Lists its tools for a caller.
    async fn tools(&self, context: &CallContext) -> Result<Vec<ToolSpec>, CallError>;

    /// Prepares a tool call before its approval is requested.
    async fn prepare(
        &self,
        _context: &CallContext,
        _name: &str,
        _arguments: &str,
    ) -> Result<PreparedCall, CallError> {
        Ok(PreparedCall::default())
    }

    /// Calls a tool with arguments as JSON text, after its approval.
    async fn invoke(
        &self,
        context: &CallContext,
        name: &str,
        arguments: &str,
        prepared: PreparedCall,
    ) -> Result<ToolOutput, CallError>;

    /// Returns the priority in the context chain, or `None` without a context provider. May block.
    fn context_priority(&self) -> Result<Option<i32>, CallError> {
        Ok(None)
    }

    /// Requests a block of context. May block; the returned reply waits for the asynchronous part.
    fn request_context(
        &self,
        _context: &CallContext,
        _prompt: &str,
    ) -> Result<Option<ContextReply>, CallError> {
        Ok(None)
    }

    /// Starts the service, if there is one. The future completes when the service ends.
    fn run_service(&self) -> Option<BoxFuture<'static, Result<(), CallError>>> {
        None
    }

    /// Requests the end of the service.
    fn cancel_service(&self) {}

    /// Calls a method of an interface.
    async fn call(
        &self,
        interface: &str,
        _method: &str,
        _payload: Vec<u8>,
    ) -> Result<Vec<u8>, CallError> {
        let message = format!("no interface `{interface}` is provided");
        Err(CallError::new(ErrorKind::Unavailable, message))
    }

    /// Notifies it of a changed log filter.
    fn log_filter_changed(&self) {}

    /// Shuts its runtime down. Blocks for at most `timeout_ms`, so it must not run on an async
    /// worker.
    fn shutdown_runtime(&self, _timeout_ms: u64) {}
}

/// An extension that was created.
pub struct LoadedPlugin {
    /// The extension.
    pub plugin: Box<dyn Plugin>,
    /// The name and version of its build.
    pub build: BuildInfo,
    /// The file of the library or of the program.
    pub file: PathBuf,
    /// The durations of the steps of opening it.
    pub timings: LoadTimings,
    /// Its code is part of the program.
    pub bundled: bool,
    /// The isolation of a process.
    pub isolation: Option<IsolationReport>,
}

/// The approvals that count for a prepared call of a tool that requires one unless it is granted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CallGrant {
    /// Approvals for the session, and the `allowed-tools` of approved skills.
    #[default]
    ByTool,
    /// Approvals for the session within the scope of the call alone.
    Required,
    /// None is required: the operator granted this call before.
    Given,
}

impl From<&GrantStatus> for CallGrant {
    /// Returns what a run of code of a skill requires. `allowed-tools` is the skill's own statement, so
    /// it does not approve the skill's code.
    fn from(status: &GrantStatus) -> Self {
        match status {
            GrantStatus::Granted => Self::Given,
            _ => Self::Required,
        }
    }
}

/// A tool call as prepared before its approval.
#[derive(Default)]
pub struct PreparedCall {
    /// Text for the approval beyond the arguments.
    pub details: Option<String>,
    /// True if the call requires approval every time.
    pub is_protected: bool,
    /// The part of the tool's uses that an approval for the session covers, such as a workspace or
    /// a command line; without it, the approval covers all.
    pub scope: Option<String>,
    /// The approvals that count for the call.
    pub grant: CallGrant,
    /// The digest of the effect that the approval covers.
    pub effect: Option<String>,
    /// The plan, for [`Plugin::invoke`].
    pub plan: Option<Box<dyn Any + Send + Sync>>,
}

/// The owner of a plugin that drops it without blocking: the destructor of a library is its
/// author's code.
pub(crate) struct PluginOwner(Option<SharedPlugin>);

/// One of several owners of a plugin. Boxed, so that the last owner can take the plugin out.
pub(crate) type SharedPlugin = Arc<Box<dyn Plugin>>;

impl PluginOwner {
    pub(crate) fn new(plugin: Box<dyn Plugin>) -> Self {
        Self(Some(Arc::new(plugin)))
    }

    /// Returns another owner, whose drop blocks in the destructor if it is the last one.
    pub(crate) fn share(&self) -> SharedPlugin {
        Arc::clone(self.0.as_ref().expect("taken only by drop"))
    }
}

impl Deref for PluginOwner {
    type Target = dyn Plugin;

    fn deref(&self) -> &Self::Target {
        &***self.0.as_ref().expect("taken only by drop")
    }
}

impl Drop for PluginOwner {
    fn drop(&mut self) {
        let last = self.0.take().and_then(Arc::into_inner);
        if let Some(plugin) = last.filter(|plugin| plugin.blocks_on_drop()) {
            // If the system starts no thread, the closure is dropped here.
            let _ = std::thread::Builder::new().name("drop".to_owned()).spawn(move || drop(plugin));
        }
    }
}
