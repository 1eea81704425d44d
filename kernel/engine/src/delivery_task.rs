//! Tasks that send messages to channels.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use skillhost_channels::{ChannelHub, DeliveryEnd, DeliveryLog, DeliveryTask};
use skillhost_payload::CallError;
use skillhost_tasks::{NewWait, TaskKind, TaskOutcome};

use crate::failed_task::error_outcome;
use crate::task_run::{RunEnd, TaskExecutor, TaskRun};

/// The number of deliveries at once. They are apart from the other workers, so that a long task does
/// not hold back the message about a short one.
const MAX_DELIVERIES: usize = 8;
/// The longest wait that keeps its worker; a longer one is parked.
const MAX_SHORT_WAIT: Duration = Duration::from_secs(2);

/// The executor of deliveries; the target is a channel.
pub(crate) struct DeliveryTaskExecutor {
    pub(crate) hub: Arc<ChannelHub>,
}

/// The lines of a delivery, as lines of its task.
struct DeliveryTaskLog<'a> {
    run: &'a TaskRun,
}

#[async_trait]
impl TaskExecutor for DeliveryTaskExecutor {
    fn kind(&self) -> TaskKind {
        TaskKind::Deliver
    }

    fn local_targets(&self) -> Option<Vec<String>> {
        Some(self.hub.local_targets())
    }

    fn own_workers(&self) -> Option<usize> {
        // A home without channels has no deliveries to look for.
        Some(if self.hub.is_used() { MAX_DELIVERIES } else { 0 })
    }

    async fn execute(&self, run: &TaskRun) -> RunEnd {
        loop {
            // The engine reports the error of the store with its next operation.
            let Ok(lines) = run.stored_lines().await else { return RunEnd::Stop };
            let task = DeliveryTask {
                id: run.task.id.as_str(),
                target: &run.task.target,
                input: &run.input,
                lines: &lines,
                is_repeated: run.task.attempt > 1,
            };
            let log = DeliveryTaskLog { run };
            let delivering = self.hub.deliver(task, &log);
            let end = tokio::select! {
                biased;
                () = run.lease.cancel_token().cancelled() => return cancelled_end(run),
                end = delivering => end,
            };
            let until_ms = match end {
                DeliveryEnd::Sent { summary } => {
                    let text = summary;
                    let outcome =
                        TaskOutcome::Completed { text, structured: None, is_error: false };
                    return RunEnd::Finish(outcome);
                }
                DeliveryEnd::Failed { message, hint } => {
                    return RunEnd::Finish(error_outcome(&message, &hint));
                }
                DeliveryEnd::Stopped => return RunEnd::Stop,
                DeliveryEnd::Later { until_ms } => until_ms,
            };
            let Ok(now_ms) = run.queue.store().now_ms().await else { return RunEnd::Stop };
            let wait = Duration::from_millis(until_ms.saturating_sub(now_ms));
            if wait > MAX_SHORT_WAIT {
                let until_ms = Some(until_ms);
                return RunEnd::Park(NewWait { until_ms, ..NewWait::default() });
            }
            tokio::select! {
                () = run.lease.cancel_token().cancelled() => return cancelled_end(run),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }
}

#[async_trait]
impl DeliveryLog for DeliveryTaskLog<'_> {
    async fn check_claim(&self) -> Result<(), CallError> {
        self.run.recorder.check_call().await
    }

    async fn append_line(&self, line: String) -> Result<(), CallError> {
        Ok(self.run.recorder.record(vec![line]).await?)
    }
}

fn cancelled_end(run: &TaskRun) -> RunEnd {
    let by = run.lease.cancelled_by().unwrap_or_default();
    RunEnd::Finish(TaskOutcome::Cancelled { by })
}
