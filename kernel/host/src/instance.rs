//! One loaded extension: its calls with their limits, its service, its end.

use std::future::Future;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use skillhost_contract::payload::{BuildInfo, CallContext, ErrorKind, ToolOutput, ToolSpec};
use skillhost_manifest::Manifest;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::abi::lifecycle;
use crate::boot::spawn_blocking;
use crate::context_guard::ContextGuard;
use crate::error::CallError;
use crate::kernel::KernelLimits;
use crate::loader::LoadTimings;
use crate::offered::OfferedNames;
use crate::remote::{ExtensionBackend, RemoteOwner};
use crate::report::LoadedExtension;

/// A loaded extension. Calls in flight hold it alive, so a new build can take its place at once.
pub(crate) struct Instance {
    /// Tells apart what was loaded under one id, one after the other.
    pub(crate) number: u64,
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) build: BuildInfo,
    pub(crate) library: PathBuf,
    pub(crate) timings: LoadTimings,
    /// Names and audiences as they were when the extension was wired.
    pub(crate) specs: Vec<ToolSpec>,
    /// The names that the extension itself gives to what `specs` names.
    names: OfferedNames,
    pub(crate) priority: Option<i32>,
    remote: RemoteOwner,
    context: Arc<ContextGuard>,
    calls: TaskTracker,
    service: Mutex<Option<JoinHandle<()>>>,
    service_failure: Arc<Mutex<Option<CallError>>>,
}

/// An instance that does not end while this lives.
pub(crate) struct PinnedInstance {
    // Dropped before the token: whoever waits for the token is then the last owner.
    instance: Arc<Instance>,
    _token: TaskTrackerToken,
}

impl Deref for PinnedInstance {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        &self.instance
    }
}

impl Instance {
    pub(crate) fn new(
        manifest: Arc<Manifest>,
        build: BuildInfo,
        library: PathBuf,
        timings: LoadTimings,
        remote: ExtensionBackend,
    ) -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(1);
        Self {
            number: COUNTER.fetch_add(1, Ordering::Relaxed),
            manifest,
            build,
            library,
            timings,
            specs: Vec::new(),
            names: OfferedNames::default(),
            priority: None,
            remote: RemoteOwner::new(remote),
            context: Arc::default(),
            calls: TaskTracker::new(),
            service: Mutex::default(),
            service_failure: Arc::default(),
        }
    }

    /// Keeps the instance from ending; nothing when it already ends. It ends only after a newer
    /// state has taken its place, so the caller looks again (see `KernelShared::pin_state`).
    pub(crate) fn pin(self: &Arc<Self>) -> Option<PinnedInstance> {
        let token = self.calls.token();
        // In this order: an end that begins in between waits for the token.
        (!self.calls.is_closed())
            .then(|| PinnedInstance { instance: Arc::clone(self), _token: token })
    }

    pub(crate) fn to_report(&self) -> LoadedExtension {
        LoadedExtension {
            id: self.manifest.id.clone(),
            name: self.manifest.name.clone(),
            version: self.build.version.clone(),
            library: self.library.clone(),
            command: self.manifest.command().unwrap_or_default().to_vec(),
            tools: self.specs.iter().map(|spec| spec.name.clone()).collect(),
            context_priority: self.priority,
            service: self.remote.has_service(),
            interfaces: self.remote.interfaces().to_vec(),
            timings: self.timings,
        }
    }

    /// Names each tool that the manifest exports or renames and the extension does not have.
    pub(crate) fn unknown_exports(&self) -> impl Iterator<Item = String> {
        let id = &self.manifest.id;
        let unmatched = self.names.unmatched().iter();
        let unmatched = unmatched
            .map(move |entry| format!("`{id}`: tools: {entry}: matches none of its tools"));
        let has = |tool: &String| self.specs.iter().any(|spec| spec.name == *tool);
        let unknown = self.manifest.mcp.tools.iter().filter(move |tool| !has(tool));
        let unknown =
            unknown.map(move |tool| format!("`{id}` exports the tool `{tool}` and has none"));
        unknown.chain(unmatched)
    }

    pub(crate) fn provides(&self, interface: &str) -> bool {
        self.remote.interfaces().iter().any(|name| name == interface)
    }

    /// Runs `START`, then learns the names of the tools and the place in the context chain.
    pub(crate) async fn start(&self, limits: &KernelLimits) -> Result<(), CallError> {
        self.with_timeout(limits.start, self.remote.lifecycle(lifecycle::START)).await
    }

    /// Asks for what the kernel's tables need.
    pub(crate) async fn load_metadata(&mut self, limits: &KernelLimits) -> Result<(), CallError> {
        let context = CallContext {
            origin: skillhost_contract::payload::CallOrigin::Operator,
            ..CallContext::default()
        };
        let listed = self.with_timeout(limits.start, self.remote.tools(&context)).await?;
        self.names = OfferedNames::new(&self.manifest.tools, &listed);
        self.specs = self.names.rename(listed);
        // The author's code, and not asynchronous.
        let remote = self.remote.share();
        let priority = async { spawn_blocking(move || remote.context_priority()).await? };
        self.priority = self.with_timeout(limits.start, priority).await?;
        Ok(())
    }

    pub(crate) async fn health_check(&self, limits: &KernelLimits) -> Result<(), CallError> {
        let failure = self.service_failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(error) = failure {
            return Err(error);
        }
        self.with_timeout(limits.health, self.remote.lifecycle(lifecycle::HEALTH_CHECK)).await
    }

    pub(crate) async fn tools(
        &self,
        context: &CallContext,
        limits: &KernelLimits,
    ) -> Result<Vec<ToolSpec>, CallError> {
        if !self.remote.has_tools() {
            return Ok(Vec::new());
        }
        if self.manifest.command().is_some() {
            // What a process lists later counts no more than what it says otherwise.
            return Ok(self.specs.clone());
        }
        let listed = self.with_timeout(limits.context, self.remote.tools(context)).await?;
        Ok(self.names.rename(listed))
    }

    pub(crate) async fn invoke(
        &self,
        context: &CallContext,
        name: &str,
        arguments: &str,
        limit: Duration,
    ) -> Result<ToolOutput, CallError> {
        let own = self.names.own(name);
        self.with_timeout(limit, self.remote.invoke(context, own, arguments)).await
    }

    pub(crate) async fn get_context(
        &self,
        context: &CallContext,
        prompt: &str,
        limit: Duration,
    ) -> Result<Option<String>, CallError> {
        if self.context.is_stuck(limit) {
            let message =
                format!("`{}` has not returned from an earlier request", self.manifest.id);
            return Err(CallError::new(ErrorKind::Unavailable, message)
                .with_hint("its `ready_context` blocks; move what waits to `get_context`"));
        }
        self.with_timeout(limit, self.ask_context(context, prompt)).await
    }

    async fn ask_context(
        &self,
        context: &CallContext,
        prompt: &str,
    ) -> Result<Option<String>, CallError> {
        let library = self.remote.as_library().filter(|library| library.has_context());
        let Some(library) = library else { return Ok(None) };
        let reply = match self.context.begin_in_place() {
            Some(_call) => Some(library.ask_context(context, prompt)?),
            None => {
                let (guard, remote) = (Arc::clone(&self.context), self.remote.share());
                let (context, prompt) = (context.clone(), prompt.to_owned());
                let asked = spawn_blocking(move || {
                    let _call = guard.begin_elsewhere();
                    let library = remote.as_library();
                    library.map(|library| library.ask_context(&context, &prompt)).transpose()
                });
                asked.await??
            }
        };
        match reply {
            Some(reply) => reply.block().await,
            None => Ok(None),
        }
    }

    pub(crate) async fn call(
        &self,
        interface: &str,
        method: &str,
        payload: Vec<u8>,
        limit: Duration,
    ) -> Result<Vec<u8>, CallError> {
        self.with_timeout(limit, self.remote.call(interface, method, payload)).await
    }

    pub(crate) fn log_filter_changed(&self) {
        self.remote.log_filter_changed();
    }

    /// Starts the service where there is one; `failed` is told if it ends with an error.
    pub(crate) fn start_service(&self, failed: impl FnOnce(&CallError) + Send + 'static) {
        let Some(running) = self.remote.run_background() else { return };
        let failure = Arc::clone(&self.service_failure);
        let task = tokio::spawn(async move {
            if let Err(error) = running.await {
                *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
                failed(&error);
            }
        });
        *self.service.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    /// Cancels the service and waits for it; what does not end in time is dropped.
    pub(crate) async fn stop_service(&self, limits: &KernelLimits) {
        let task = self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut task) = task else { return };
        self.remote.cancel_service();
        if tokio::time::timeout(limits.stop, &mut task).await.is_err() {
            tracing::warn!(id = %self.manifest.id, "the service did not end in time");
            task.abort();
            // The future is dropped before the extension is.
            let _ = task.await;
        }
    }

    /// Waits until no call is in flight, at most `limits.drain`; then stops the extension and ends
    /// its runtime. The order is the one in the architecture: service, calls, stop, runtime, drop.
    pub(crate) async fn shutdown(self: Arc<Self>, limits: &KernelLimits) {
        self.stop_service(limits).await;
        self.calls.close();
        if tokio::time::timeout(limits.drain, self.calls.wait()).await.is_err() {
            tracing::warn!(id = %self.manifest.id, "calls were still running and are given up");
        }
        let stopped = tokio::time::timeout(limits.stop, self.remote.lifecycle(lifecycle::STOP));
        match stopped.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(id = %self.manifest.id, %error, "while stopping"),
            Err(_) => tracing::warn!(id = %self.manifest.id, "did not stop in time"),
        }
        let timeout = u64::try_from(limits.stop.as_millis()).unwrap_or(u64::MAX);
        let (id, remote) = (self.manifest.id.clone(), self.remote.share());
        drop(self);
        // Ending a runtime blocks, and so may the author's Drop.
        let ended = spawn_blocking(move || {
            remote.shutdown_runtime(timeout);
            drop(remote);
        });
        if tokio::time::timeout(limits.stop.saturating_mul(2), ended).await.is_err() {
            tracing::warn!(%id, "does not end, and is left behind");
        }
    }

    async fn with_timeout<T>(
        &self,
        limit: Duration,
        call: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        match tokio::time::timeout(limit, call).await {
            Ok(result) => result,
            Err(_) => Err(self.timed_out(limit)),
        }
    }

    /// The error for what took longer than a limit.
    pub(crate) fn timed_out(&self, limit: Duration) -> CallError {
        let (id, ms) = (&self.manifest.id, limit.as_millis());
        CallError::new(ErrorKind::Timeout, format!("`{id}` did not answer within {ms} ms"))
    }
}
