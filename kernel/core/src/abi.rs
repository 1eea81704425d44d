//! Conversions between the kernel's types and the contract's objects. No other file has any.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use abi_stable::sabi_trait::TD_Opaque;
use abi_stable::std_types::{RErr, ROk, RResult, RStr, RString, RVec};
use async_ffi::FutureExt as _;
use async_trait::async_trait;
use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use skillhost_contract::abi::{
    ContextObject, ExtensionObject, FfiError, FfiFut, FfiResult, HostApi, HostApi_TO, LogRecord,
    ServiceObject, ToolObject, lifecycle,
};
use skillhost_payload::{CallContext, CallError, ErrorKind, ExtensionInit, ToolOutput, ToolSpec};
use tokio::runtime::Handle;

use crate::callbacks::{HostCallbacks, LogEvent};
use crate::loader::LibraryModule;
use crate::plugin::{ContextReply, Plugin, PreparedCall};

/// A created extension, without ABI types on its surface.
pub(crate) struct LibraryExtension {
    extension: ExtensionObject,
    tools: Option<ToolObject>,
    context: Option<ContextObject>,
    service: Option<ServiceObject>,
    interfaces: Vec<String>,
}

impl LibraryExtension {
    /// Creates the extension of an opened library. Blocks while the extension's `new` runs.
    pub(crate) fn create(
        module: &LibraryModule,
        callbacks: HostCallbacks,
        runtime: Handle,
        init: &ExtensionInit,
    ) -> Result<Self, CallError> {
        // Opaque: a library cannot downcast the kernel's object.
        let host = HostApi_TO::from_value(
            HostApiImpl { callbacks: Arc::new(callbacks), runtime },
            TD_Opaque,
        );
        let instance = from_ffi_result((module.root.create())(host, to_json(init)?))?;
        Ok(Self {
            extension: instance.extension,
            tools: instance.tools.into_option(),
            context: instance.context.into_option(),
            service: instance.service.into_option(),
            interfaces: instance.interfaces.iter().map(|name| name.to_string()).collect(),
        })
    }

    async fn run_lifecycle(&self, operation: u8) -> Result<(), CallError> {
        // Each future is made before its await: it owns its arguments, the object does not move.
        let reply = self.extension.lifecycle(operation);
        from_ffi_result(reply.await)
    }
}

#[async_trait]
impl Plugin for LibraryExtension {
    fn has_tools(&self) -> bool {
        self.tools.is_some()
    }

    fn has_service(&self) -> bool {
        self.service.is_some()
    }

    fn has_context(&self) -> bool {
        self.context.is_some()
    }

    fn blocks_on_drop(&self) -> bool {
        true
    }

    fn interfaces(&self) -> &[String] {
        &self.interfaces
    }

    async fn start(&self) -> Result<(), CallError> {
        self.run_lifecycle(lifecycle::START).await
    }

    async fn check_health(&self) -> Result<(), CallError> {
        self.run_lifecycle(lifecycle::HEALTH_CHECK).await
    }

    async fn stop(&self) -> Result<(), CallError> {
        self.run_lifecycle(lifecycle::STOP).await
    }

    async fn tools(&self, context: &CallContext) -> Result<Vec<ToolSpec>, CallError> {
        let Some(tools) = &self.tools else { return Ok(Vec::new()) };
        let reply = tools.tools(to_json(context)?);
        from_json(&from_ffi_result(reply.await)?)
    }

    async fn invoke(
        &self,
        context: &CallContext,
        name: &str,
        arguments: &str,
        _: PreparedCall,
    ) -> Result<ToolOutput, CallError> {
        let Some(tools) = &self.tools else { return Err(missing_capability_error("tools")) };
        let reply = tools.invoke(to_json(context)?, name.into(), arguments.into());
        from_json(&from_ffi_result(reply.await)?)
    }

    fn context_priority(&self) -> Result<Option<i32>, CallError> {
        self.context.as_ref().map(|context| from_ffi_result(context.context_priority())).transpose()
    }

    /// Blocks while the extension's `ready_context` runs.
    fn request_context(
        &self,
        context: &CallContext,
        prompt: &str,
    ) -> Result<Option<ContextReply>, CallError> {
        let Some(provider) = &self.context else { return Err(missing_capability_error("context")) };
        let reply = provider.get_context(to_json(context)?, prompt.into());
        let block = async move {
            Ok(from_ffi_result(reply.await)?.into_option().map(RString::into_string))
        };
        Ok(Some(Box::pin(block)))
    }

    fn run_service(&self) -> Option<BoxFuture<'static, Result<(), CallError>>> {
        let running = self.service.as_ref()?.run_background();
        Some(Box::pin(async move { from_ffi_result(running.await) }))
    }

    fn cancel_service(&self) {
        if let Some(service) = &self.service {
            service.cancel();
        }
    }

    async fn call(
        &self,
        interface: &str,
        method: &str,
        payload: Vec<u8>,
    ) -> Result<Vec<u8>, CallError> {
        let reply = self.extension.call(interface.into(), method.into(), payload.into());
        Ok(from_ffi_result(reply.await)?.into_vec())
    }

    fn log_filter_changed(&self) {
        self.extension.log_filter_changed();
    }

    fn shutdown_runtime(&self, timeout_ms: u64) {
        self.extension.shutdown_runtime(timeout_ms);
    }
}

fn missing_capability_error(what: &str) -> CallError {
    CallError::new(ErrorKind::Unavailable, format!("the extension provides no {what}"))
}

fn to_json<T: Serialize>(value: &T) -> Result<RString, CallError> {
    serde_json::to_string(value)
        .map(RString::from)
        .map_err(|error| CallError::protocol_error(&error))
}

fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, CallError> {
    serde_json::from_str(text).map_err(|error| CallError::protocol_error(&error))
}

fn from_ffi_result<T>(result: FfiResult<T>) -> Result<T, CallError> {
    match result {
        RResult::ROk(value) => Ok(value),
        RResult::RErr(error) => Err(CallError {
            kind: ErrorKind::from_wire(&error.kind),
            message: error.message.into_string(),
            hint: error.hint.into_string(),
        }),
    }
}

fn to_ffi(error: &CallError) -> FfiError {
    FfiError {
        kind: error.kind.as_str().into(),
        message: error.message.as_str().into(),
        hint: error.hint.as_str().into(),
    }
}

/// The kernel's side of [`HostApi`]; one per extension.
struct HostApiImpl {
    callbacks: Arc<HostCallbacks>,
    runtime: Handle,
}

impl HostApi for HostApiImpl {
    fn log_enabled(&self, level: u8, target: RStr<'_>) -> bool {
        // A panic must not cross the library boundary; a message is then not logged.
        catch_unwind(AssertUnwindSafe(|| self.callbacks.log_enabled(level, target.as_str())))
            .unwrap_or(false)
    }

    fn log(&self, record: LogRecord<'_>) {
        // A subscriber that panics must not take the extension's thread with it.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            self.callbacks.log(&LogEvent {
                level: record.level,
                target: record.target.as_str(),
                message: record.message.as_str(),
                fields: record.fields_json.as_str(),
                spans: record.spans.as_str(),
                file: record.file.as_str(),
                line: record.line,
                call_id: record.call_id,
            });
        }));
    }

    fn call(&self, method: RString, payload: RVec<u8>) -> FfiFut<RVec<u8>> {
        let callbacks = Arc::clone(&self.callbacks);
        // The caller polls from its own runtime, so the work runs on the kernel's.
        let task = self.runtime.spawn(async move { callbacks.call(&method, &payload).await });
        let abort = AbortOnDrop(task.abort_handle());
        async move {
            let result = match task.await {
                Ok(Ok(reply)) => ROk(reply.into()),
                Ok(Err(error)) => RErr(to_ffi(&error)),
                Err(error) if error.is_panic() => RErr(to_ffi(&panic_error(&*error.into_panic()))),
                // Only the shutdown of the runtime cancels the task while this future waits for it.
                Err(_) => {
                    RErr(to_ffi(&CallError::new(ErrorKind::Cancelled, "the call was cancelled")))
                }
            };
            // Captured here, so that dropping this future aborts the task.
            drop(abort);
            result
        }
        .into_ffi()
    }
}

/// A guard that aborts a task when dropped.
struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Converts a panic's payload into an error. Payloads other than strings have no text.
fn panic_error(payload: &(dyn Any + Send)) -> CallError {
    let text = payload
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    CallError::new(ErrorKind::Panicked, format!("the kernel panicked: {text}"))
}
