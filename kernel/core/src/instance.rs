//! One loaded extension: its calls and timeouts, its service, its shutdown.

use std::future::Future;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use skillhost_control::{LoadTimings, LoadedExtension};
use skillhost_files::to_hex;
use skillhost_home::DiscoveredManifest;
use skillhost_manifest::{EventHandler, Manifest, ScheduleAction};
use skillhost_payload::{
    BuildInfo, CallContext, CallError, ErrorKind, ToolOutput, ToolSpec, event_interface,
    scheduler_interface,
};
use skillhost_sandbox::IsolationReport;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::blocking::spawn_blocking;
use crate::context_guard::ContextGuard;
use crate::limits::KernelLimits;
use crate::offered_names::OfferedNames;
use crate::plugin::{LoadedPlugin, PluginOwner, PreparedCall};

/// A loaded extension. Calls in flight keep it alive, so a new build can replace it at once.
pub struct Instance {
    /// The number of the instance, which distinguishes successive loads of one id.
    pub number: u64,
    /// Its manifest.
    pub manifest: Arc<Manifest>,
    /// The name and version of its build.
    pub build: BuildInfo,
    /// The file of the library or of the program.
    pub library: PathBuf,
    /// The durations of the steps of opening it.
    pub timings: LoadTimings,
    bundled: bool,
    isolation: Option<IsolationReport>,
    /// sha256 of the approved files, or of the library that the manifest pins; hexadecimal.
    pub sha256: Option<String>,
    /// The tools as listed when the extension was wired.
    pub specs: Vec<ToolSpec>,
    /// The extension's own names of the tools in `specs`.
    names: OfferedNames,
    /// Its priority in the context chain.
    pub priority: Option<i32>,
    plugin: PluginOwner,
    context: Arc<ContextGuard>,
    calls: TaskTracker,
    service: Mutex<Option<JoinHandle<()>>>,
    service_failure: Arc<Mutex<Option<CallError>>>,
}

/// An instance that does not end during the lifetime of this value.
pub struct PinnedInstance {
    // Dropped before the token: the waiter for the token is then the last owner.
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
    pub(crate) fn new(found: &DiscoveredManifest, created: LoadedPlugin) -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(1);
        let manifest = Arc::clone(&found.manifest);
        let approved = found.approval.as_ref().map(|record| record.digest.clone());
        Self {
            number: COUNTER.fetch_add(1, Ordering::Relaxed),
            sha256: approved.or_else(|| manifest.sha256.as_ref().map(|pin| to_hex(pin))),
            manifest,
            build: created.build,
            library: created.file,
            timings: created.timings,
            bundled: created.bundled,
            isolation: created.isolation,
            specs: Vec::new(),
            names: OfferedNames::default(),
            priority: None,
            plugin: PluginOwner::new(created.plugin),
            context: Arc::default(),
            calls: TaskTracker::new(),
            service: Mutex::default(),
            service_failure: Arc::default(),
        }
    }

    /// Prevents the instance from ending; returns `None` if it is already ending. It ends only
    /// after a newer state has replaced it, so the caller retries (see `ExtensionHost::pin_state`).
    pub fn pin(self: &Arc<Self>) -> Option<PinnedInstance> {
        let token = self.calls.token();
        // In this order: a shutdown that starts in between waits for the token.
        (!self.calls.is_closed())
            .then(|| PinnedInstance { instance: Arc::clone(self), _token: token })
    }

    /// Returns the isolation of a process.
    pub(crate) fn isolation(&self) -> Option<&IsolationReport> {
        self.isolation.as_ref()
    }

    pub(crate) fn to_report(&self) -> LoadedExtension {
        LoadedExtension {
            id: self.manifest.id.clone(),
            name: self.manifest.name.clone(),
            version: self.build.version.clone(),
            library: self.library.clone(),
            bundled: self.bundled,
            isolation: self.isolation.clone(),
            command: self.manifest.command().unwrap_or_default().to_vec(),
            tools: self.specs.iter().map(|spec| spec.name.clone()).collect(),
            context_priority: self.priority,
            service: self.plugin.has_service(),
            interfaces: self.plugin.interfaces().to_vec(),
            timings: self.timings,
        }
    }

    /// Lists the tools that the manifest exports or renames and the extension does not provide.
    pub(crate) fn unknown_exports(&self) -> impl Iterator<Item = String> {
        let id = &self.manifest.id;
        let unmatched = self.names.unmatched().iter();
        let unmatched = unmatched
            .map(move |entry| format!("`{id}`: tools: {entry}: matches none of its tools"));
        let has = |tool: &String| self.specs.iter().any(|spec| spec.name == *tool);
        let unknown = self.manifest.mcp.tools.iter().filter(move |tool| !has(tool));
        let unknown = unknown
            .map(move |tool| format!("`{id}` exports the tool `{tool}`, which it does not have"));
        unknown.chain(unmatched)
    }

    /// Returns the error of a library whose manifest has custom event handlers and which exports
    /// none.
    pub(crate) fn unhandled_topics(&self) -> Option<String> {
        let mut subscriptions = self.manifest.events.subscribes.iter();
        let custom = subscriptions.find(|entry| entry.handler == Some(EventHandler::Custom))?;
        (!self.provides(event_interface::NAME)).then(|| {
            format!(
                "`{}` subscribes to `{}` and handles no events: its library exports no `events`",
                self.manifest.id, custom.topic
            )
        })
    }

    /// Returns the errors of the schedules that cannot run.
    pub(crate) fn unrunnable_schedules(&self) -> Vec<String> {
        let (id, schedules) = (&self.manifest.id, &self.manifest.schedules);
        let problem = |action: &ScheduleAction| match action {
            ScheduleAction::Task(_) if !self.provides(scheduler_interface::NAME) => {
                Some("has a task, but the library exports no `scheduler`".to_owned())
            }
            ScheduleAction::Tool { name, .. }
                if !self.specs.iter().any(|spec| spec.name == *name) =>
            {
                Some(format!("names tool `{name}`, which `{id}` does not have"))
            }
            ScheduleAction::Task(_) | ScheduleAction::Tool { .. } | ScheduleAction::Prompt(_) => {
                None
            }
        };
        let problems = schedules.iter().filter_map(|schedule| {
            Some(format!("schedule `{id}/{}` {}", schedule.name, problem(&schedule.action)?))
        });
        problems.collect()
    }

    /// Returns whether it has an interface.
    #[must_use]
    pub fn provides(&self, interface: &str) -> bool {
        self.plugin.interfaces().iter().any(|name| name == interface)
    }

    /// Runs `START` of the extension.
    pub(crate) async fn start(&self, limits: &KernelLimits) -> Result<(), CallError> {
        self.with_timeout(limits.start, self.plugin.start()).await
    }

    /// Loads the entries for the kernel's tables: tools and priority.
    pub(crate) async fn load_metadata(&mut self, limits: &KernelLimits) -> Result<(), CallError> {
        let context = CallContext {
            origin: skillhost_payload::CallOrigin::Operator,
            ..CallContext::default()
        };
        let listed = self.with_timeout(limits.start, self.plugin.tools(&context)).await?;
        self.names = OfferedNames::new(&self.manifest.tools, &listed);
        self.specs = self.names.rename(listed);
        // Synchronous code of the extension, which may block.
        let plugin = self.plugin.share();
        let priority = async { spawn_blocking(move || plugin.context_priority()).await? };
        self.priority = self.with_timeout(limits.start, priority).await?;
        Ok(())
    }

    pub(crate) async fn health_check(&self, limits: &KernelLimits) -> Result<(), CallError> {
        // A failed service is an error even if the extension still replies.
        let failure = self.service_failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(error) = failure {
            return Err(error);
        }
        self.with_timeout(limits.health, self.plugin.check_health()).await
    }

    /// Lists its tools for a caller, under the names of the manifest.
    ///
    /// # Errors
    /// The error of the extension.
    pub fn tools<'a>(
        &'a self,
        context: &'a CallContext,
        limits: &'a KernelLimits,
    ) -> BoxFuture<'a, Result<Vec<ToolSpec>, CallError>> {
        Box::pin(async move {
            if !self.plugin.has_tools() {
                return Ok(Vec::new());
            }
            if self.plugin.has_fixed_tools() {
                return Ok(self.specs.clone());
            }
            let listed = self.with_timeout(limits.context, self.plugin.tools(context)).await?;
            Ok(self.names.rename(listed))
        })
    }

    /// Calls a tool by its name of the manifest. The caller has the required approval.
    ///
    /// # Errors
    /// The error of the tool.
    pub fn invoke<'a>(
        &'a self,
        context: &'a CallContext,
        name: &'a str,
        arguments: &'a str,
        limit: Duration,
    ) -> BoxFuture<'a, Result<ToolOutput, CallError>> {
        Box::pin(async move {
            let own = self.names.own(name);
            self.with_timeout(
                limit,
                self.plugin.invoke(context, own, arguments, PreparedCall::default()),
            )
            .await
        })
    }

    pub(crate) async fn get_context(
        &self,
        context: &CallContext,
        prompt: &str,
        limit: Duration,
    ) -> Result<Option<String>, CallError> {
        // The kernel calls no further code of a provider that still blocks one of its threads.
        if self.context.is_stuck(limit) {
            let message =
                format!("`{}` has not returned from an earlier request", self.manifest.id);
            return Err(CallError::new(ErrorKind::Unavailable, message)
                .with_hint("move blocking work from `ready_context` to `get_context`"));
        }
        self.with_timeout(limit, self.ask_context(context, prompt)).await
    }

    async fn ask_context(
        &self,
        context: &CallContext,
        prompt: &str,
    ) -> Result<Option<String>, CallError> {
        if !self.plugin.has_context() {
            return Ok(None);
        }
        let reply = match self.context.start_in_place() {
            Some(_call) => self.plugin.request_context(context, prompt)?,
            None => {
                let (guard, plugin) = (Arc::clone(&self.context), self.plugin.share());
                let (context, prompt) = (context.clone(), prompt.to_owned());
                let request = spawn_blocking(move || {
                    let _call = guard.start_elsewhere();
                    plugin.request_context(&context, &prompt)
                });
                request.await??
            }
        };
        match reply {
            Some(reply) => reply.await,
            None => Ok(None),
        }
    }

    /// Calls a method of an interface.
    ///
    /// # Errors
    /// The error of the extension.
    pub fn call<'a>(
        &'a self,
        interface: &'a str,
        method: &'a str,
        payload: Vec<u8>,
        limit: Duration,
    ) -> BoxFuture<'a, Result<Vec<u8>, CallError>> {
        Box::pin(async move {
            self.with_timeout(limit, self.plugin.call(interface, method, payload)).await
        })
    }

    pub(crate) fn log_filter_changed(&self) {
        self.plugin.log_filter_changed();
    }

    /// Starts the service, if the extension has one; calls `failed` if it ends with an error.
    pub(crate) fn start_service(&self, failed: impl FnOnce(&CallError) + Send + 'static) {
        let Some(running) = self.plugin.run_service() else { return };
        let failure = Arc::clone(&self.service_failure);
        let task = tokio::spawn(async move {
            if let Err(error) = running.await {
                *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
                failed(&error);
            }
        });
        *self.service.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    /// Cancels the service and waits for it; a service that exceeds the limit is dropped.
    pub(crate) async fn stop_service(&self, limits: &KernelLimits) {
        let task = self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut task) = task else { return };
        self.plugin.cancel_service();
        if tokio::time::timeout(limits.stop, &mut task).await.is_err() {
            tracing::warn!(id = %self.manifest.id, "stopping the service timed out");
            task.abort();
            // The future must be dropped before the extension, whose code it runs.
            let _ = task.await;
        }
    }

    /// Waits for calls in flight, at most `limits.drain`; then stops the extension and shuts its
    /// runtime down, in the order of the architecture: service, calls, stop, runtime, drop.
    pub fn shutdown(self: Arc<Self>, limits: &KernelLimits) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.stop_service(limits).await;
            // Closed before the wait: `pin` fails from here on, so the number of calls only falls.
            self.calls.close();
            if tokio::time::timeout(limits.drain, self.calls.wait()).await.is_err() {
                tracing::warn!(id = %self.manifest.id, "active calls exceeded the drain timeout and are abandoned");
            }
            let stopped = tokio::time::timeout(limits.stop, self.plugin.stop());
            match stopped.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(id = %self.manifest.id, %error, "stop failed"),
                Err(_) => tracing::warn!(id = %self.manifest.id, "stop timed out"),
            }
            let timeout = u64::try_from(limits.stop.as_millis()).unwrap_or(u64::MAX);
            let (id, plugin) = (self.manifest.id.clone(), self.plugin.share());
            drop(self);
            // The end of a runtime blocks, and so may the extension's `Drop`.
            let ended = spawn_blocking(move || {
                plugin.shutdown_runtime(timeout);
                drop(plugin);
            });
            if tokio::time::timeout(limits.stop.saturating_mul(2), ended).await.is_err() {
                tracing::warn!(%id, "did not end and is abandoned");
            }
        })
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

    /// Returns the error of a call that exceeded its limit.
    pub fn timed_out(&self, limit: Duration) -> CallError {
        let (id, ms) = (&self.manifest.id, limit.as_millis());
        CallError::new(ErrorKind::Timeout, format!("`{id}` timed out after {ms} ms"))
    }
}
