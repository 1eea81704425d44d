//! The execution of operations: the transitions of every row that an operation concerns.
//!
//! Refusals come before the first write of an operation.

use crate::amounts::TaskAmounts;
use crate::error::QueueErrorKind;
use crate::ids::TaskId;
use crate::operation::{
    ClaimFilter, ClaimedTask, HeartbeatStatus, LostWorkers, Operation, OperationOutcome,
    OperationResult, ReleaseReason, SweepReport,
};
use crate::store::{OverdueLimits, StoreResult, StoreTransaction};
use crate::task::{FailureReason, TaskClaim, TaskOutcome, TaskState};

mod ending;
mod lookup;
mod questions;
mod step;
mod submission;
#[cfg(test)]
pub(crate) mod testing;
mod waiting;

use ending::apply;
use lookup::{claimed, existing};
use step::{MAX_PAUSE_MS, TaskInput, step};

/// The longest lease; one that ends later was set by another clock.
const MAX_LEASE_MS: u64 = 10 * 60 * 1000;
/// The number of rows that a sweep reads at once.
const SWEEP_ROWS: usize = 500;

/// Executes an operation in a transaction.
///
/// # Errors
/// As for [`Queue::execute`](crate::Queue::execute).
pub(crate) fn execute_operation(
    rows: &mut dyn StoreTransaction,
    operation: Operation,
    now_ms: u64,
) -> OperationResult {
    match operation {
        Operation::Submit(new) => submission::submit(rows, *new, now_ms),
        Operation::Retry { task, id, fresh, submitter } => {
            submission::submit_again(rows, &task, id, fresh, submitter, now_ms)
        }
        Operation::Claim { worker, filter, limit, lease_ms } => {
            claim(rows, &worker, &filter, limit, lease_ms, now_ms)
        }
        Operation::Heartbeat { claims, lease_ms } => renew(rows, &claims, lease_ms, now_ms),
        Operation::Sweep { lost_workers } => sweep(rows, &lost_workers, now_ms),
        Operation::Record { claim, lines, spent, returned, progress } => {
            let mut task = claimed(rows, &claim)?;
            rows.append_lines(&task.id, task.epoch, task.lines, &lines)?;
            let lines = lines.len() as u64;
            let record = TaskInput::Record { lines, spent, returned, progress };
            apply(rows, &mut task, record, now_ms)?;
            Ok(OperationOutcome::Done(1))
        }
        Operation::Wait { claim, wait } => waiting::park(rows, &claim, &wait, now_ms),
        Operation::Ask(question) => questions::ask(rows, None, &question, now_ms)
            .map(|asked| OperationOutcome::Asked(Box::new(asked))),
        Operation::Decide(decision) => questions::decide(rows, decision, now_ms)
            .map(|outcome| OperationOutcome::Decided(Box::new(outcome))),
        Operation::Withdraw { thread, question, reason } => {
            questions::withdraw(rows, thread.as_deref(), question.as_deref(), &reason, now_ms)
                .map(OperationOutcome::Done)
        }
        Operation::Release { claim, reason } => {
            let mut task = claimed(rows, &claim)?;
            let input = match &reason {
                ReleaseReason::Retry { error, jitter } => {
                    TaskInput::Retry { error, jitter: *jitter }
                }
                ReleaseReason::Stop => TaskInput::Stop,
            };
            apply(rows, &mut task, input, now_ms)?;
            Ok(OperationOutcome::Changed(Box::new(task)))
        }
        Operation::Finish { claim, outcome, spent } => {
            let mut task = claimed(rows, &claim)?;
            let returned = TaskAmounts::default();
            let record = TaskInput::Record { lines: 0, spent, returned, progress: None };
            // A running task accepts both.
            let _ = step(&mut task, record, now_ms);
            ending::end_task(rows, &mut task, outcome, now_ms)?;
            Ok(OperationOutcome::Changed(Box::new(task)))
        }
        Operation::Cancel { task, by } => {
            let mut task = existing(rows, &task)?;
            ending::cancel_tree(rows, &mut task, &by, now_ms)?;
            Ok(OperationOutcome::Changed(Box::new(task)))
        }
        Operation::AcknowledgeOutbox { seqs } => {
            Ok(OperationOutcome::Done(rows.remove_outbox(&seqs)?))
        }
        Operation::BindHandle { sha256, task, principal } => {
            existing(rows, &task)?;
            rows.insert_handle(&sha256, &task, &principal)?;
            Ok(OperationOutcome::Done(1))
        }
    }
}

fn claim(
    rows: &mut dyn StoreTransaction,
    worker: &str,
    filter: &ClaimFilter,
    limit: usize,
    lease_ms: u64,
    now_ms: u64,
) -> OperationResult {
    let lease_end_ms = now_ms.saturating_add(lease_ms.min(MAX_LEASE_MS));
    let mut claimed = Vec::new();
    for mut task in rows.claimable(filter, now_ms, limit)? {
        apply(rows, &mut task, TaskInput::Claim { worker, lease_end_ms }, now_ms)?;
        // One that was started too often has failed instead.
        if task.state == TaskState::Running {
            let input = rows.input(&task.id)?;
            claimed.push(ClaimedTask { task, input });
        }
    }
    Ok(OperationOutcome::Claimed(claimed))
}

fn renew(
    rows: &mut dyn StoreTransaction,
    claims: &[TaskClaim],
    lease_ms: u64,
    now_ms: u64,
) -> OperationResult {
    let lease_end_ms = now_ms.saturating_add(lease_ms.min(MAX_LEASE_MS));
    let mut states = Vec::with_capacity(claims.len());
    for claim in claims {
        states.push(match claimed(rows, claim) {
            Ok(mut task) => {
                apply(rows, &mut task, TaskInput::Renew { lease_end_ms }, now_ms)?;
                match task.cancel {
                    Some(_) => HeartbeatStatus::Cancel,
                    None => HeartbeatStatus::Kept,
                }
            }
            Err(error) => match error.kind() {
                QueueErrorKind::Stale | QueueErrorKind::NotFound => HeartbeatStatus::Lost,
                _ => return Err(error),
            },
        });
    }
    Ok(OperationOutcome::Heartbeats(states))
}

fn sweep(rows: &mut dyn StoreTransaction, lost: &LostWorkers, now_ms: u64) -> OperationResult {
    let limits = OverdueLimits {
        now_ms,
        latest_lease_ms: now_ms.saturating_add(MAX_LEASE_MS),
        latest_pause_ms: now_ms.saturating_add(MAX_PAUSE_MS),
        all_running: *lost == LostWorkers::All,
    };
    let mut report = SweepReport::default();
    loop {
        let overdue = rows.overdue(&limits, SWEEP_ROWS)?;
        let is_last = overdue.len() < SWEEP_ROWS;
        for task in overdue {
            sweep_task(rows, &task.id, &limits, &mut report)?;
        }
        if is_last {
            break;
        }
    }
    // After the tasks: questions of a task that has just failed are withdrawn already.
    report.expired = questions::expire(rows, now_ms)?;
    Ok(OperationOutcome::Swept(report))
}

fn sweep_task(
    rows: &mut dyn StoreTransaction,
    id: &TaskId,
    limits: &OverdueLimits,
    report: &mut SweepReport,
) -> StoreResult<()> {
    let now_ms = limits.now_ms;
    // The end of a task before it in the list may have changed it.
    let Some(mut task) = rows.task(id)? else { return Ok(()) };
    if task.state.is_terminal() {
        return Ok(());
    }
    if let Some(deadline) = task.deadline_ms.filter(|deadline| *deadline <= now_ms) {
        report.failed += 1;
        let deadline = i64::try_from(deadline).unwrap_or(i64::MAX);
        let message =
            format!("deadline {} has passed", skillhost_payload::format_rfc3339(deadline));
        let reason = FailureReason::Deadline;
        return ending::end_task(rows, &mut task, TaskOutcome::failed(reason, message), now_ms);
    }
    match task.state {
        TaskState::Running => {
            report.lost += 1;
            apply(rows, &mut task, TaskInput::LoseWorker, now_ms)?;
            report.failed += usize::from(task.state == TaskState::Failed);
        }
        TaskState::Waiting => {
            apply(rows, &mut task, TaskInput::ReachTime, now_ms)?;
            report.woken += usize::from(task.state == TaskState::Ready);
        }
        TaskState::Ready if task.is_backoff => {
            apply(rows, &mut task, TaskInput::EndPause, now_ms)?;
        }
        _ => {}
    }
    Ok(())
}
