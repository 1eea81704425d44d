//! Delegations of a task's run: subtasks with a part of its budget.

use std::sync::Arc;

use async_trait::async_trait;
use skillhost_agents::{DelegationState, RequestEstimate, RunControl, RunError};
use skillhost_payload::{CallContext, CallError, CallOrigin, ErrorKind};
use skillhost_tasks::{
    EndNotice, NewTask, SubmitterOrigin, Task, TaskKind, TaskOutcome, TaskQueue, TaskSubmitter,
    WaitMode,
};

use crate::task_channel::TaskChannel;
use crate::task_recorder::TaskRecorder;

/// The control of the run of a task, with the subtasks that it delegates.
pub(crate) struct TaskRunControl {
    pub(crate) recorder: Arc<TaskRecorder>,
    pub(crate) channel: Arc<TaskChannel>,
    pub(crate) queue: TaskQueue,
    pub(crate) task: Task,
    /// The thread of the run.
    pub(crate) thread: String,
}

/// Returns the origin of a subtask: what a client of the MCP server started never reaches more.
pub(crate) fn subtask_origin(parent: CallOrigin) -> SubmitterOrigin {
    match parent {
        CallOrigin::Mcp => SubmitterOrigin::Mcp,
        CallOrigin::Agent | CallOrigin::Operator => SubmitterOrigin::Agent,
    }
}

impl TaskRunControl {
    /// Checks that no task above the subtask, nor this one, is of its agent.
    async fn check_cycle(&self, agent: &str) -> Result<(), CallError> {
        let mut task = self.task.clone();
        loop {
            if task.kind == TaskKind::Agent && task.target == agent {
                let message =
                    format!("task came from `{agent}` and cannot be delegated back to it");
                return Err(CallError::new(ErrorKind::Denied, message)
                    .with_hint("reply with the results so far"));
            }
            // At most as many as the depth limit.
            let Some(parent) = &task.parent else { return Ok(()) };
            match self.queue.find(parent).await? {
                Some(parent) => task = parent,
                None => return Ok(()),
            }
        }
    }
}

#[async_trait]
impl RunControl for TaskRunControl {
    fn origin(&self) -> CallOrigin {
        self.recorder.origin()
    }

    async fn start_request(&self, estimate: RequestEstimate) -> Result<(), RunError> {
        self.recorder.start_request(estimate).await
    }

    fn finish_request(&self, estimate: RequestEstimate) {
        self.recorder.finish_request(estimate);
    }

    async fn check_call(&self) -> Result<(), CallError> {
        self.recorder.check_call().await
    }

    async fn delegate(
        &self,
        context: &CallContext,
        agent: &str,
        task: String,
    ) -> Result<DelegationState, CallError> {
        self.check_cycle(agent).await?;
        let new = NewTask {
            parent: Some(self.task.id.clone()),
            // A retry of this task delegates again, so the scope is this task and not its thread.
            scope: format!("task:{}", self.task.id),
            key: context.idempotency_key.clone(),
            submitter: TaskSubmitter {
                origin: subtask_origin(self.origin()),
                agent: Some(context.agent_id.clone()),
                thread: Some(self.thread.clone()),
                principal: None,
                correlation_id: context.correlation_id.clone(),
            },
            on_end: EndNotice::Silent,
            ..NewTask::for_agent(agent, task)
        };
        let subtask = self.queue.submit(new).await?.task;
        let failed = |kind, text: String| DelegationState::Ended(Err(CallError::new(kind, text)));
        Ok(match subtask.outcome {
            None => {
                self.channel.add_tasks(&[subtask.id], WaitMode::All);
                DelegationState::Waiting
            }
            Some(TaskOutcome::Completed { text, is_error: false, .. }) => {
                DelegationState::Ended(Ok(text))
            }
            Some(TaskOutcome::Completed { text, is_error: true, .. }) => {
                failed(ErrorKind::Failed, text)
            }
            // Its hint names commands, which a model cannot run.
            Some(TaskOutcome::Failed { message, .. }) => failed(ErrorKind::Failed, message),
            Some(TaskOutcome::Cancelled { by }) => {
                failed(ErrorKind::Cancelled, format!("its task was cancelled by {by}"))
            }
        })
    }
}
