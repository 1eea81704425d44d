//! Tasks that agents work on.

use std::sync::Arc;

use async_trait::async_trait;
use skillhost_agents::{RunControl, RunError, RunRequest, WeakAgentRuntime};
use skillhost_conversation::{ModelErrorKind, Thread};
use skillhost_tasks::{TaskKind, TaskOutcome};

use crate::failed_task::{budget_outcome, error_outcome, target_outcome};
use crate::running_tasks::{RunningTask, RunningTasks};
use crate::subtask::{TaskRunControl, subtask_origin};
use crate::task_channel::TaskChannel;
use crate::task_recorder::TaskLineWriter;
use crate::task_run::{RunEnd, TaskExecutor, TaskRun};

/// The executor of the tasks of agents.
pub(crate) struct AgentTaskExecutor {
    pub(crate) agents: WeakAgentRuntime,
    pub(crate) running: Arc<RunningTasks>,
}

#[async_trait]
impl TaskExecutor for AgentTaskExecutor {
    fn kind(&self) -> TaskKind {
        TaskKind::Agent
    }

    fn local_targets(&self) -> Option<Vec<String>> {
        let agents = self.agents.upgrade().map(|agents| agents.list_agents()).unwrap_or_default();
        // Another machine may have one without the error.
        let usable = agents.iter().filter(|agent| agent.require_ready().is_ok());
        Some(usable.map(|agent| agent.manifest.id.to_string()).collect())
    }

    async fn execute(&self, run: &TaskRun) -> RunEnd {
        let Some(agents) = self.agents.upgrade() else { return RunEnd::Stop };
        if let Err(error) = agents.refresh_agent(&run.task.target).await {
            // The task ends instead of waiting for an agent that may never come.
            return RunEnd::Finish(target_outcome(&run.task, &error.to_string(), &error.hint()));
        }
        let mut thread = match open_thread(run).await {
            Ok(thread) => thread,
            Err(end) => return end,
        };
        let channel = Arc::new(TaskChannel::new(run.queue.clone(), run.task.id.clone()));
        let running = RunningTask {
            claim: run.lease.claim.clone(),
            queue: run.queue.clone(),
            channel: Arc::clone(&channel),
            origin: subtask_origin(run.recorder.origin()),
        };
        // Before the run: its first tool call looks the task up.
        let _listed = self.running.insert(thread.id(), running);
        let control: Arc<dyn RunControl> = Arc::new(TaskRunControl {
            recorder: Arc::clone(&run.recorder),
            channel: Arc::clone(&channel),
            queue: run.queue.clone(),
            task: run.task.clone(),
            thread: thread.id().to_owned(),
        });
        let request = RunRequest {
            agent: Some(run.task.target.clone()),
            prompt: run.input.clone(),
            cancel: run.lease.cancel_token().clone(),
            // The id of the first task of a chain of retries: its message is continued.
            message_id: Some(thread.id().to_owned()),
            correlation_id: Some(correlation_id(run)),
            budget: Some(Arc::clone(run.recorder.budget())),
            control: Some(control),
            ..RunRequest::default()
        };
        let parking = Arc::clone(&channel);
        let ended = agents.run_agent(&mut thread, request, channel).await;
        // An approval of this attempt must not hold for a later one.
        agents.run_sessions().clear_approvals(thread.id());
        match ended {
            Ok(outcome) => RunEnd::Finish(TaskOutcome::Completed {
                text: outcome.text,
                structured: None,
                is_error: false,
            }),
            Err(RunError::Parked) => RunEnd::Park(parking.take_wait()),
            Err(error) => to_run_end(run, &error),
        }
    }
}

/// Returns the correlation id of the calls of a task.
fn correlation_id(run: &TaskRun) -> String {
    run.task.submitter.correlation_id.clone().unwrap_or_else(|| run.task.id.to_string())
}

/// Opens the thread of a task from the lines of earlier attempts.
async fn open_thread(run: &TaskRun) -> Result<Thread, RunEnd> {
    // The engine has noted an error of the store by its next operation.
    let lines = run.stored_lines().await.map_err(|_| RunEnd::Stop)?;
    // As the append log had them, with a line break behind each.
    let mut bytes = lines.join("\n").into_bytes();
    if !bytes.is_empty() {
        bytes.push(b'\n');
    }
    let writer = Box::new(TaskLineWriter::start(Arc::clone(&run.recorder)));
    let (name, id) = (format!("task {}", run.task.id), run.task.id.as_str());
    match Thread::from_journal(&name, id, &run.task.target, &bytes, writer).await {
        Ok(thread) => Ok(thread),
        Err(_) if run.recorder.store_error().is_some() => Err(RunEnd::Stop),
        Err(error) => Err(RunEnd::Finish(error_outcome(&error.to_string(), &error.hint()))),
    }
}

/// Returns the end of a run that returned an error.
fn to_run_end(run: &TaskRun, error: &RunError) -> RunEnd {
    if run.recorder.store_error().is_some() {
        return RunEnd::Stop;
    }
    let (message, hint) = (error.to_string(), error.hint());
    match error {
        RunError::Restarting => RunEnd::Stop,
        RunError::Cancelled => match run.lease.cancelled_by() {
            Some(by) => RunEnd::Finish(TaskOutcome::Cancelled { by }),
            None => RunEnd::Stop,
        },
        RunError::Budget { which } => RunEnd::Finish(budget_outcome(&run.task, *which)),
        RunError::Agent(_) => RunEnd::Finish(target_outcome(&run.task, &message, &hint)),
        RunError::Model(model)
            if matches!(
                model.kind,
                ModelErrorKind::Busy | ModelErrorKind::Network | ModelErrorKind::Timeout
            ) =>
        {
            RunEnd::Retry(message)
        }
        _ => RunEnd::Finish(error_outcome(&message, &hint)),
    }
}
