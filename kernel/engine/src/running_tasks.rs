//! The tasks of agents that run in this process, as the tools of their runs see them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skillhost_agents::AgentRuntime;
use skillhost_payload::{CallContext, CallError, ErrorKind};
use skillhost_tasks::{
    SubmitterOrigin, TaskAmounts, TaskClaim, TaskId, TaskProgress, TaskQueue, WaitMode,
};

use crate::task_channel::TaskChannel;

/// The tasks of agents that run, by the id of their threads.
#[derive(Default)]
pub(crate) struct RunningTasks {
    by_thread: Mutex<HashMap<String, RunningTask>>,
}

/// A running task of an agent.
#[derive(Clone)]
pub(crate) struct RunningTask {
    pub(crate) claim: TaskClaim,
    pub(crate) queue: TaskQueue,
    pub(crate) channel: Arc<TaskChannel>,
    /// The origin of its subtasks.
    pub(crate) origin: SubmitterOrigin,
}

/// A guard that keeps a task listed until it is dropped.
pub(crate) struct RunningTaskGuard {
    tasks: Arc<RunningTasks>,
    thread: String,
}

impl RunningTasks {
    /// Lists a task while it runs.
    pub(crate) fn insert(self: &Arc<Self>, thread: &str, task: RunningTask) -> RunningTaskGuard {
        self.lock().insert(thread.to_owned(), task);
        RunningTaskGuard { tasks: Arc::clone(self), thread: thread.to_owned() }
    }

    /// Returns the task whose thread this is.
    pub(crate) fn task_of_thread(&self, thread: &str) -> Option<TaskId> {
        self.lock().get(thread).map(|running| running.claim.task.clone())
    }

    /// Returns the origin of the tasks that a task submits.
    pub(crate) fn subtask_origin(&self, task: &TaskId) -> Option<SubmitterOrigin> {
        self.find(task).map(|running| running.origin)
    }

    /// Parks a call of a task's run until tasks have ended; returns the error that ends the call.
    pub(crate) fn park_for_tasks(
        &self,
        task: &TaskId,
        agents: &AgentRuntime,
        context: &CallContext,
        awaited: &[TaskId],
        mode: WaitMode,
    ) -> CallError {
        if let Some(running) = self.find(task) {
            running.channel.add_tasks(awaited, mode);
        }
        agents.park_call(context)
    }

    /// Stores the progress of a task.
    ///
    /// # Errors
    /// An error of the queue.
    pub(crate) async fn report_progress(
        &self,
        task: &TaskId,
        progress: TaskProgress,
    ) -> Result<(), CallError> {
        let Some(RunningTask { claim, queue, .. }) = self.find(task) else {
            return Err(CallError::new(ErrorKind::Unavailable, "the task has ended"));
        };
        Ok(queue.record(claim, Vec::new(), TaskAmounts::default(), Some(progress)).await?)
    }

    fn find(&self, task: &TaskId) -> Option<RunningTask> {
        self.lock().values().find(|running| running.claim.task == *task).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, RunningTask>> {
        self.by_thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunningTaskGuard {
    fn drop(&mut self) {
        self.tasks.lock().remove(&self.thread);
    }
}
