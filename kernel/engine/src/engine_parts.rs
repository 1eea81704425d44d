//! The parts of the engine that its loop and its handle share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skillhost_agents::{RunGate, WeakAgentRuntime};
use skillhost_tasks::{QueueError, TaskQueue};

use crate::task_run::TaskExecutor;

/// The parts of an engine.
pub(crate) struct EngineParts {
    pub(crate) agents: WeakAgentRuntime,
    pub(crate) queue: TaskQueue,
    pub(crate) gate: Arc<RunGate>,
    /// Returns whether this process holds the lock for claiming.
    pub(crate) can_claim: Box<dyn Fn() -> bool + Send + Sync>,
    pub(crate) executors: Vec<Arc<dyn TaskExecutor>>,
    /// The length of a lease.
    pub(crate) lease: Duration,
    /// The error of the store, until its next success.
    pub(crate) problem: Mutex<Option<QueueError>>,
}

impl EngineParts {
    /// Returns the error of the store.
    pub(crate) fn problem(&self) -> Option<QueueError> {
        self.lock_problem().clone()
    }

    /// Notes an error of the store; logged once per cause.
    pub(crate) fn note_failure(&self, error: &QueueError) {
        let known = self.lock_problem().replace(error.clone());
        if known.is_none_or(|known| known.to_string() != error.to_string()) {
            tracing::error!(%error, hint = error.hint(), "tasks are paused; retrying");
        }
    }

    /// Notes that the store works.
    pub(crate) fn note_success(&self) {
        if self.lock_problem().take().is_some() {
            tracing::warn!("tasks resumed");
        }
    }

    /// Returns the number of tasks that run at once.
    pub(crate) fn worker_limit(&self) -> usize {
        let agents = self.agents.upgrade();
        agents.map_or(0, |agents| agents.extensions().settings().tasks.worker_count())
    }

    fn lock_problem(&self) -> MutexGuard<'_, Option<QueueError>> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
