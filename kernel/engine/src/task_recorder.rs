//! The writes of a run to its task: lines, and the amounts that were spent.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use skillhost_agents::{BudgetLimits, BudgetUsage, RequestEstimate, RunBudget, RunError};
use skillhost_files::{AppendReceipt, LineWriter};
use skillhost_payload::{CallError, CallOrigin, ErrorKind};
use skillhost_tasks::{QueueError, QueueErrorKind, Task, TaskAmounts, TaskBudget, TaskQueue};
use tokio::sync::{mpsc, oneshot};

use crate::task_lease::{LostClaimError, TaskLease};

/// The writer of one run's lines and amounts; every write is fenced by the claim.
pub(crate) struct TaskRecorder {
    queue: TaskQueue,
    lease: Arc<TaskLease>,
    budget: Arc<RunBudget>,
    origin: CallOrigin,
    /// The usage of the budget that the store has.
    recorded: tokio::sync::Mutex<TaskAmounts>,
    /// The estimates of requests that have ended since the last record.
    ended_requests: Mutex<TaskAmounts>,
    /// The error of the store that ended the run.
    store_error: Mutex<Option<QueueError>>,
}

impl TaskRecorder {
    pub(crate) fn new(
        queue: TaskQueue,
        lease: Arc<TaskLease>,
        task: &Task,
        origin: CallOrigin,
    ) -> Self {
        // What is reserved for open subtasks is not this run's to spend.
        let usage = task.spent.saturating_add(task.reserved);
        let budget = RunBudget::with_usage(to_limits(&task.budget), to_usage(usage));
        Self {
            queue,
            lease,
            budget,
            origin,
            recorded: tokio::sync::Mutex::new(usage),
            ended_requests: Mutex::default(),
            store_error: Mutex::default(),
        }
    }

    /// Returns the budget of the task.
    pub(crate) fn budget(&self) -> &Arc<RunBudget> {
        &self.budget
    }

    /// Returns the error of the store that ended the run, if one did.
    pub(crate) fn store_error(&self) -> Option<QueueError> {
        self.store_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stores lines, with the amounts spent since the last record.
    pub(crate) async fn record(&self, lines: Vec<String>) -> Result<(), QueueError> {
        self.record_with(lines, TaskAmounts::default()).await
    }

    /// Stores corrections that are left, and returns the amounts spent since the last record.
    pub(crate) async fn settle_amounts(&self) -> Result<TaskAmounts, QueueError> {
        if *self.lock_ended_requests() != TaskAmounts::default() {
            self.record(Vec::new()).await?;
        }
        let recorded = self.recorded.lock().await;
        Ok(from_usage(self.budget.usage()).saturating_sub(*recorded))
    }

    async fn record_with(
        &self,
        lines: Vec<String>,
        estimate: TaskAmounts,
    ) -> Result<(), QueueError> {
        // Held during the write: two records at once would count the same amounts twice.
        let mut recorded = self.recorded.lock().await;
        let usage = from_usage(self.budget.usage());
        let spent = usage.saturating_sub(*recorded).saturating_add(estimate);
        let returned = std::mem::take(&mut *self.lock_ended_requests());
        let claim = self.lease.claim.clone();
        match self.queue.record_corrected(claim, lines, spent, returned).await {
            Ok(()) => {
                // Only now: amounts of a failed record are part of the next one.
                *recorded = usage;
                Ok(())
            }
            Err(error) => {
                let mut ended = self.lock_ended_requests();
                *ended = ended.saturating_add(returned);
                if error.kind() == QueueErrorKind::Stale {
                    self.lease.lose();
                }
                let mut first = self.store_error.lock().unwrap_or_else(PoisonError::into_inner);
                Err(first.get_or_insert(error).clone())
            }
        }
    }

    fn lock_ended_requests(&self) -> std::sync::MutexGuard<'_, TaskAmounts> {
        self.ended_requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The control of a run by its task, see [`skillhost_agents::RunControl`].
impl TaskRecorder {
    pub(crate) fn origin(&self) -> CallOrigin {
        self.origin
    }

    pub(crate) async fn start_request(&self, estimate: RequestEstimate) -> Result<(), RunError> {
        // Dropped by the engine, which sees the loss as well.
        self.lease.wait_for_claim().await.map_err(|LostClaimError| RunError::Cancelled)?;
        let recorded = self.record_with(Vec::new(), to_amounts(estimate)).await;
        // The engine finds the error of the store behind it.
        recorded.map_err(|_| RunError::Cancelled)
    }

    pub(crate) fn finish_request(&self, estimate: RequestEstimate) {
        let mut ended = self.lock_ended_requests();
        *ended = ended.saturating_add(to_amounts(estimate));
    }

    pub(crate) async fn check_call(&self) -> Result<(), CallError> {
        self.lease.wait_for_claim().await.map_err(|LostClaimError| {
            CallError::new(ErrorKind::Cancelled, "the task was taken over; the call was not made")
        })
    }
}

/// The writer of a thread's lines as lines of its task.
pub(crate) struct TaskLineWriter {
    lines: mpsc::UnboundedSender<PendingLines>,
}

/// Lines with the sender of their receipt.
struct PendingLines {
    bytes: Vec<u8>,
    receipt: oneshot::Sender<io::Result<()>>,
}

impl TaskLineWriter {
    /// Starts the writer; it ends when it is dropped and all lines are stored.
    pub(crate) fn start(recorder: Arc<TaskRecorder>) -> Self {
        let (lines, mut pending) = mpsc::unbounded_channel::<PendingLines>();
        tokio::spawn(async move {
            while let Some(PendingLines { bytes, receipt }) = pending.recv().await {
                let text = String::from_utf8_lossy(&bytes);
                let recorded = recorder.record(text.lines().map(str::to_owned).collect()).await;
                let _ = receipt.send(recorded.map_err(io::Error::other));
            }
        });
        Self { lines }
    }
}

impl LineWriter for TaskLineWriter {
    fn write_lines(&self, bytes: Vec<u8>) -> AppendReceipt {
        let (sender, receipt) = AppendReceipt::channel();
        // Without the writer's task the receipt is an error.
        let _ = self.lines.send(PendingLines { bytes, receipt: sender });
        receipt
    }
}

fn to_amounts(estimate: RequestEstimate) -> TaskAmounts {
    let cost = to_millionths(estimate.cost.unwrap_or_default());
    TaskAmounts { tokens: estimate.tokens, cost, ..TaskAmounts::default() }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the conversion saturates, and prices are not negative"
)]
fn to_millionths(cost: f64) -> u64 {
    (cost * 1e6).ceil() as u64
}

fn from_usage(usage: BudgetUsage) -> TaskAmounts {
    let BudgetUsage { turns, tokens, time_ms, cost } = usage;
    TaskAmounts { turns: u64::from(turns), tokens, time_ms, cost }
}

fn to_usage(amounts: TaskAmounts) -> BudgetUsage {
    let TaskAmounts { turns, tokens, time_ms, cost } = amounts;
    BudgetUsage { turns: u32::try_from(turns).unwrap_or(u32::MAX), tokens, time_ms, cost }
}

fn to_limits(budget: &TaskBudget) -> BudgetLimits {
    let TaskBudget { turns, tokens, time_ms, cost } = *budget;
    let turns = turns.map(|turns| u32::try_from(turns).unwrap_or(u32::MAX));
    BudgetLimits { turns, tokens, time_ms, cost }
}
