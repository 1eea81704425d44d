//! One claimed task at work, and the executors by kind.

use std::sync::Arc;

use async_trait::async_trait;
use skillhost_payload::CallOrigin;
use skillhost_tasks::{
    ClaimedTask, NewWait, QueueError, SubmitterOrigin, Task, TaskKind, TaskOutcome, TaskQueue,
};

use crate::task_lease::TaskLease;
use crate::task_recorder::TaskRecorder;

/// An executor of the tasks of one kind.
#[async_trait]
pub(crate) trait TaskExecutor: Send + Sync {
    /// Returns the kind.
    fn kind(&self) -> TaskKind;

    /// Returns the targets that this process has; `None` if every process has every target.
    fn local_targets(&self) -> Option<Vec<String>> {
        None
    }

    /// Returns the number of workers that only this kind has; `None` shares those of the settings.
    fn own_workers(&self) -> Option<usize> {
        None
    }

    /// Executes a task until it ends or stops. The engine drops the future when the claim is lost.
    async fn execute(&self, run: &TaskRun) -> RunEnd;
}

/// A claimed task with everything that its execution needs.
pub(crate) struct TaskRun {
    pub(crate) queue: TaskQueue,
    pub(crate) task: Task,
    pub(crate) input: String,
    pub(crate) lease: Arc<TaskLease>,
    pub(crate) recorder: Arc<TaskRecorder>,
}

/// The way in which an execution ends.
#[derive(Debug)]
pub(crate) enum RunEnd {
    /// The task ends.
    Finish(TaskOutcome),
    /// A transient error: another attempt follows.
    Retry(String),
    /// The kernel stops, or the run cannot store its steps: another attempt follows, uncounted.
    Stop,
    /// The task waits.
    Park(NewWait),
}

impl TaskRun {
    pub(crate) fn new(queue: TaskQueue, claimed: ClaimedTask, lease: Arc<TaskLease>) -> Self {
        let ClaimedTask { task, input } = claimed;
        let origin = call_origin(&task);
        let recorder = TaskRecorder::new(queue.clone(), Arc::clone(&lease), &task, origin);
        Self { queue, task, input, lease, recorder: Arc::new(recorder) }
    }

    /// Returns the lines of earlier attempts.
    pub(crate) async fn stored_lines(&self) -> Result<Vec<String>, QueueError> {
        const PAGE: usize = 1_000;
        let mut lines = Vec::new();
        loop {
            let page = self.queue.lines(&self.task.id, lines.len() as u64, PAGE).await?;
            let is_last = page.len() < PAGE;
            lines.extend(page.into_iter().map(|line| line.line));
            if is_last {
                return Ok(lines);
            }
        }
    }
}

/// Returns the origin of the calls of a task: only what the operator submitted is the operator's.
pub(crate) fn call_origin(task: &Task) -> CallOrigin {
    match (task.submitter.origin, task.kind) {
        // The calls of an agent are the model's, also if the operator submitted the task.
        (SubmitterOrigin::Operator, TaskKind::Tool) => CallOrigin::Operator,
        (SubmitterOrigin::Mcp, _) => CallOrigin::Mcp,
        _ => CallOrigin::Agent,
    }
}
