//! Guards that keep panics, runtimes and cancellation on this side of the boundary.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use abi_stable::std_types::{RErr, ROk, ROption, RString, RVec};
use async_ffi::FutureExt as _;
use serde::Serialize;
use skillhost_contract::abi::{
    ContextAbi, ExtensionAbi, FfiFut, FfiResult, HostObject, ServiceAbi, ToolAbi, lifecycle,
};
use skillhost_payload::{CallContext, ErrorKind};
use tokio::runtime::{Handle, Runtime};
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::args::ToolArgs;
use crate::bridge;
use crate::codec::to_ffi;
use crate::error::{ExtensionError, Result};
use crate::interface::Interface;
use crate::link::{CALL_ID, HostLink};
use crate::provider::{ContextProvider, Extension, ServiceProvider, ToolProvider};

/// The state shared by all guarded objects of one extension.
pub(crate) struct ExtensionShared {
    runtime: Mutex<Option<Runtime>>,
    handle: Handle,
    cancel: CancellationToken,
}

impl ExtensionShared {
    /// Starts the extension's runtime: two workers named after the extension. The span applies to
    /// every thread.
    pub(crate) fn new(
        id: &str,
        host: HostObject,
        span: &tracing::Span,
    ) -> Result<(Arc<Self>, HostLink)> {
        let span = span.clone();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            // One blocked call must not stop the extension; more threads would cost every
            // extension.
            .worker_threads(2)
            .thread_name(format!("ext-{id}"))
            .on_thread_start(move || bridge::enter_on_thread(&span))
            .on_thread_stop(bridge::exit_on_thread)
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let link = HostLink::new(host, handle.clone());
        let cancel = CancellationToken::new();
        Ok((Arc::new(Self { runtime: Mutex::new(Some(runtime)), handle, cancel }), link))
    }

    pub(crate) fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    pub(crate) fn enter(&self) -> tokio::runtime::EnterGuard<'_> {
        self.handle.enter()
    }

    /// Runs a call on the extension's own runtime; dropping the returned future aborts it.
    fn run<T, F>(&self, call_id: u64, future: F) -> FfiFut<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        // The caller polls from its own runtime, where the extension's timers and sockets would
        // fail.
        let task = self.handle.spawn(CALL_ID.scope(call_id, future));
        let abort = AbortOnDrop(task.abort_handle());
        async move {
            let result = join_task(task).await;
            drop(abort);
            result.map_err(|error| to_ffi(&error)).into()
        }
        .into_ffi()
    }
}

impl Drop for ExtensionShared {
    fn drop(&mut self) {
        // `None` after `shutdown_runtime`. Otherwise, as when `new` fails, the tasks are not
        // awaited: a blocked thread would block the caller that drops this.
        let runtime = self.runtime.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(runtime) = runtime {
            runtime.shutdown_background();
        }
    }
}

/// A guard that aborts a task on drop.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn join_task<T>(task: JoinHandle<Result<T>>) -> Result<T> {
    match task.await {
        Ok(result) => result,
        Err(error) if error.is_panic() => Err(panic_error(error.into_panic())),
        Err(_) => Err(ExtensionError::new(ErrorKind::Cancelled, "the call was cancelled")),
    }
}

/// Runs synchronous code of the extension; a panic becomes an error.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> Result<T>) -> FfiResult<T> {
    let result =
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| Err(panic_error(payload)));
    result.map_err(|error| to_ffi(&error)).into()
}

fn panic_error(payload: Box<dyn Any + Send>) -> ExtensionError {
    let text = payload
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned());
    // Dropping the payload runs the author's `Drop`, which may panic again.
    std::mem::forget(payload);
    ExtensionError::new(ErrorKind::Panicked, format!("the extension panicked: {text}"))
}

fn to_json_text<T: Serialize + ?Sized>(value: &T) -> Result<RString> {
    serde_json::to_string(value)
        .map(RString::from)
        .map_err(|error| ExtensionError::new(ErrorKind::Protocol, error.to_string()))
}

fn parse_context(text: &str) -> Result<CallContext> {
    serde_json::from_str(text).map_err(|error| {
        ExtensionError::new(ErrorKind::Protocol, format!("the call context is not valid: {error}"))
    })
}

/// A wrapper that implements the contract's objects for an author's value.
///
/// A panic of the author's code, its `Drop` included, never crosses the boundary.
pub(crate) struct GuardedObject<T> {
    inner: Option<Arc<T>>,
    shared: Arc<ExtensionShared>,
    interfaces: Vec<Arc<dyn Interface>>,
}

impl<T> GuardedObject<T> {
    pub(crate) fn new(inner: Arc<T>, shared: Arc<ExtensionShared>) -> Self {
        Self { inner: Some(inner), shared, interfaces: Vec::new() }
    }

    pub(crate) fn with_interfaces(mut self, interfaces: Vec<Arc<dyn Interface>>) -> Self {
        self.interfaces = interfaces;
        self
    }

    fn inner(&self) -> Arc<T> {
        Arc::clone(self.inner.as_ref().expect("taken only by drop"))
    }
}

impl<T> Drop for GuardedObject<T> {
    fn drop(&mut self) {
        // The author's `Drop` may spawn tasks or close sockets, which requires the runtime context.
        let _entered = self.shared.enter();
        let (inner, interfaces) = (self.inner.take(), std::mem::take(&mut self.interfaces));
        // All references are dropped inside the guard: any of them may be the last one.
        if let RErr(error) = catch_panic(move || {
            drop((inner, interfaces));
            Ok(())
        }) {
            tracing::error!("dropping the extension failed: {}", error.message);
        }
    }
}

impl<T: Extension> ExtensionAbi for GuardedObject<T> {
    fn lifecycle(&self, operation: u8) -> FfiFut<()> {
        let extension = self.inner();
        self.shared.run(0, async move {
            match operation {
                lifecycle::START => extension.start().await,
                lifecycle::STOP => extension.stop().await,
                lifecycle::HEALTH_CHECK => extension.health_check().await,
                other => Err(ExtensionError::new(
                    ErrorKind::Protocol,
                    format!("unknown operation {other}"),
                )),
            }
        })
    }

    fn call(&self, interface: RString, method: RString, payload: RVec<u8>) -> FfiFut<RVec<u8>> {
        let interface_impl =
            self.interfaces.iter().find(|i| i.name() == interface.as_str()).cloned();
        self.shared.run(0, async move {
            let interface_impl = interface_impl.ok_or_else(|| {
                ExtensionError::new(ErrorKind::Protocol, format!("unknown interface `{interface}`"))
            })?;
            interface_impl.call(&method, &payload).await.map(RVec::from)
        })
    }

    fn log_filter_changed(&self) {
        // Callsites cache whether they are enabled; without this the new filter has no effect.
        tracing::callsite::rebuild_interest_cache();
    }

    fn shutdown_runtime(&self, timeout_ms: u64) {
        // First the token: tasks that listen to it end by themselves within the timeout.
        self.shared.cancel.cancel();
        let runtime = self.shared.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(runtime) = runtime {
            // Tasks are dropped here, and with them values whose `Drop` may panic.
            let _ = catch_panic(|| {
                runtime.shutdown_timeout(Duration::from_millis(timeout_ms));
                Ok(())
            });
        }
    }
}

impl<T: ToolProvider> ToolAbi for GuardedObject<T> {
    fn tools(&self, context: RString) -> FfiFut<RString> {
        let provider = self.inner();
        self.shared.run(0, async move {
            let specs = provider.tools(&parse_context(&context)?);
            to_json_text(&specs.iter().map(|spec| &spec.0).collect::<Vec<_>>())
        })
    }

    fn invoke(&self, context: RString, name: RString, arguments: RString) -> FfiFut<RString> {
        let provider = self.inner();
        let context = match parse_context(&context) {
            Ok(context) => context,
            Err(error) => return async move { RErr(to_ffi(&error)) }.into_ffi(),
        };
        self.shared.run(context.call_id, async move {
            to_json_text(&provider.invoke(&context, &name, ToolArgs::new(&arguments)).await?.0)
        })
    }
}

impl<T: ContextProvider> ContextAbi for GuardedObject<T> {
    fn context_priority(&self) -> FfiResult<i32> {
        catch_panic(|| Ok(self.inner().context_priority()))
    }

    fn get_context(&self, context: RString, prompt: RString) -> FfiFut<ROption<RString>> {
        let provider = self.inner();
        let context = match parse_context(&context) {
            Ok(context) => context,
            Err(error) => return async move { RErr(to_ffi(&error)) }.into_ffi(),
        };
        let to_block = |block: Option<Arc<str>>| block.map(|text| RString::from(&*text)).into();
        // Inline on the caller's thread: a block at hand saves two thread switches per turn.
        let ready = || catch_panic(|| Ok(provider.ready_context(&context, &prompt)));
        match CALL_ID.sync_scope(context.call_id, ready) {
            ROk(Some(block)) => return std::future::ready(ROk(to_block(block))).into_ffi(),
            RErr(error) => return std::future::ready(RErr(error)).into_ffi(),
            ROk(None) => {}
        }
        self.shared.run(context.call_id, async move {
            Ok(to_block(provider.get_context(&context, &prompt).await?))
        })
    }
}

impl<T: ServiceProvider> ServiceAbi for GuardedObject<T> {
    fn run_background(&self) -> FfiFut<()> {
        let (provider, cancel) = (self.inner(), self.shared.cancel.child_token());
        self.shared.run(0, async move { provider.run_background(cancel).await })
    }

    fn cancel(&self) {
        self.shared.cancel.cancel();
    }
}
