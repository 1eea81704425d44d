//! The handle of the engine, and its state.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use skillhost_agents::{AgentRuntime, NoticeSource, RunGate};
use skillhost_channels::ChannelHub;
use skillhost_core::ToolTable;
use skillhost_payload::{
    CallContext, CallError, CallOrigin, ErrorKind, PreparedTask, StoreTaskStepRequest,
    TaskProgressReport,
};
use skillhost_tasks::{QueueError, TaskQueue, TaskState};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::agent_task::AgentTaskExecutor;
use crate::delivery_task::DeliveryTaskExecutor;
use crate::end_notices::EndNotices;
use crate::engine_parts::EngineParts;
use crate::extension_runs::ExtensionRuns;
use crate::extension_task::ExtensionTaskExecutor;
use crate::running_tasks::RunningTasks;
use crate::task_kinds::prepare_task;
use crate::task_run::TaskExecutor;
use crate::task_tools::add_tools;
use crate::tool_task::ToolTaskExecutor;
use crate::work_loop::WorkLoop;

/// The number of open questions that are counted.
const MAX_QUESTIONS: usize = 10_000;

/// The parts of a kernel that the engine works with.
pub struct EngineOptions {
    /// The agents.
    pub agents: AgentRuntime,
    /// The queue of the home.
    pub queue: TaskQueue,
    /// The channels of the home.
    pub channels: Arc<ChannelHub>,
    /// The gate of all runs.
    pub gate: Arc<RunGate>,
    /// Returns whether this process holds the lock for claiming.
    pub can_claim: Box<dyn Fn() -> bool + Send + Sync>,
}

/// The task engine of a kernel.
pub struct TaskEngine {
    parts: Arc<EngineParts>,
    notices: Arc<EndNotices>,
    running: Arc<RunningTasks>,
    extension_runs: Arc<ExtensionRuns>,
    service: Mutex<Option<EngineService>>,
}

/// The running loop.
struct EngineService {
    stop: CancellationToken,
    abandon: CancellationToken,
    work: JoinHandle<()>,
}

/// The state of the engine, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskEngineStatus {
    /// True if this process claims tasks.
    pub is_claiming: bool,
    /// The error of the store, until its next success.
    pub problem: Option<QueueError>,
    /// The number of tasks in each state that has any.
    pub counts: BTreeMap<TaskState, u64>,
    /// The number of open questions.
    pub open_questions: usize,
}

impl TaskEngine {
    /// Creates an engine that is not started.
    #[must_use]
    pub fn new(options: EngineOptions) -> Self {
        let EngineOptions { agents, queue, channels, gate, can_claim } = options;
        let lease = agents.extensions().settings().tasks.lease();
        let weak = agents.downgrade();
        let notices = Arc::new(EndNotices::new(weak.clone(), queue.clone()));
        agents.set_notice_source(Arc::clone(&notices) as Arc<dyn NoticeSource>);
        let agents = weak;
        let running = Arc::<RunningTasks>::default();
        let agent_tasks =
            AgentTaskExecutor { agents: agents.clone(), running: Arc::clone(&running) };
        let tool_tasks = ToolTaskExecutor { agents: agents.clone() };
        let extension_runs = Arc::new(ExtensionRuns::new(Arc::clone(&gate)));
        let extension_tasks =
            ExtensionTaskExecutor { agents: agents.clone(), runs: Arc::clone(&extension_runs) };
        let executors: Vec<Arc<dyn TaskExecutor>> = vec![
            Arc::new(agent_tasks),
            Arc::new(tool_tasks),
            Arc::new(extension_tasks),
            Arc::new(DeliveryTaskExecutor { hub: channels }),
        ];
        let problem = Mutex::default();
        let parts = EngineParts { agents, queue, gate, can_claim, executors, lease, problem };
        let parts = Arc::new(parts);
        Self { parts, notices, running, extension_runs, service: Mutex::default() }
    }

    /// Returns the queue.
    #[must_use]
    pub fn queue(&self) -> &TaskQueue {
        &self.parts.queue
    }

    /// Adds the tools of tasks to those of the kernel.
    pub fn add_tools(&self, tools: &mut ToolTable) {
        let (agents, queue) = (self.parts.agents.clone(), self.parts.queue.clone());
        add_tools(tools, agents, queue, Arc::clone(&self.running));
    }

    /// Returns the notices about the ends of tasks.
    #[must_use]
    pub fn end_notices(&self) -> &Arc<EndNotices> {
        &self.notices
    }

    /// Checks the submission of a task of an extension by the operator, and returns its title.
    ///
    /// # Errors
    /// An unknown kind, with similar ones; an input that the kind does not accept; the error of an
    /// extension that is rejected or fails.
    pub fn prepare_task<'a>(
        &'a self,
        target: &'a str,
        input: &'a str,
    ) -> BoxFuture<'a, Result<PreparedTask, CallError>> {
        Box::pin(async move {
            let stopped = || CallError::new(ErrorKind::Unavailable, "kernel is shutting down");
            let agents = self.parts.agents.upgrade().ok_or_else(stopped)?;
            let context = CallContext {
                origin: CallOrigin::Operator,
                call_id: agents.extensions().next_call_id(),
                ..CallContext::default()
            };
            let prepared = prepare_task(agents.extensions(), &context, target, input).await?;
            Ok(prepared.1)
        })
    }

    /// Stores a step of a task that an extension executes.
    ///
    /// # Errors
    /// A claim that is not current, a task of another extension, a step that is too large, an error
    /// of the store.
    pub fn store_task_step<'a>(
        &'a self,
        extension: &'a str,
        request: StoreTaskStepRequest,
    ) -> BoxFuture<'a, Result<(), CallError>> {
        Box::pin(self.extension_runs.store_step(extension, request))
    }

    /// Stores the progress of a task that an extension executes.
    ///
    /// # Errors
    /// As for [`TaskEngine::store_task_step`].
    pub fn report_task_progress<'a>(
        &'a self,
        extension: &'a str,
        report: TaskProgressReport,
    ) -> BoxFuture<'a, Result<(), CallError>> {
        Box::pin(self.extension_runs.report_progress(extension, report))
    }

    /// Starts to claim tasks, first those that an earlier process left; a second call has no effect.
    /// Ends with [`TaskEngine::stop`].
    pub fn start(&self) {
        let mut service = lock(&self.service);
        if service.is_none() {
            let (stop, abandon) = (CancellationToken::new(), CancellationToken::new());
            let work = WorkLoop::new(Arc::clone(&self.parts)).run(stop.clone(), abandon.clone());
            *service = Some(EngineService { stop, abandon, work: tokio::spawn(work) });
        }
    }

    /// Returns whether this process claims tasks.
    #[must_use]
    pub fn is_started(&self) -> bool {
        lock(&self.service).is_some()
    }

    /// Stops: no further task is claimed, and running ones are released when they stop, at the
    /// latest after a time.
    pub fn stop(&self, limit: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let service = lock(&self.service).take();
            if let Some(EngineService { stop, abandon, mut work }) = service {
                // In order first, then by force.
                stop.cancel();
                if tokio::time::timeout(limit, &mut work).await.is_err() {
                    abandon.cancel();
                    // The next start takes over what is left.
                    let _ = tokio::time::timeout(limit, work).await;
                }
            }
        })
    }

    /// Returns the state of the engine.
    pub fn status(&self) -> BoxFuture<'_, TaskEngineStatus> {
        Box::pin(async move {
            let queue = &self.parts.queue;
            let read = async {
                let counts = queue.counts().await?;
                Ok::<_, QueueError>((counts, queue.open_questions(MAX_QUESTIONS).await?.len()))
            };
            let (counts, open_questions, problem) = match read.await {
                Ok((counts, open)) => (counts.into_iter().collect(), open, self.parts.problem()),
                Err(error) => (BTreeMap::new(), 0, Some(error)),
            };
            TaskEngineStatus { is_claiming: self.is_started(), problem, counts, open_questions }
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
