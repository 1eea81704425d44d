//! Rows that operations look up, and the events about them.

use serde_json::json;

use crate::error::QueueError;
use crate::ids::TaskId;
use crate::store::{EventSubject, OutboxEvent, StoreResult, StoreTransaction};
use crate::task::{Task, TaskClaim, TaskState};

/// Returns a task.
pub(super) fn existing(rows: &mut dyn StoreTransaction, id: &TaskId) -> StoreResult<Task> {
    rows.task(id)?.ok_or_else(|| QueueError::task_not_found(id))
}

/// Returns the task of a claim, if the claim is the current one.
pub(super) fn claimed(rows: &mut dyn StoreTransaction, claim: &TaskClaim) -> StoreResult<Task> {
    let task = existing(rows, &claim.task)?;
    match task.state == TaskState::Running && task.epoch == claim.epoch {
        true => Ok(task),
        false => Err(QueueError::stale(&claim.task, claim.epoch)),
    }
}

/// Appends an event about a task to the outbox.
pub(super) fn append_task_event(
    rows: &mut dyn StoreTransaction,
    topic: &'static str,
    key: String,
    task: &Task,
) -> StoreResult<()> {
    let payload = json!({
        "task": task.id,
        "kind": task.kind,
        "target": task.target,
        "title": task.title,
        "state": task.state,
        "parent": task.parent,
        "root": task.root,
        "waits": task.waits,
        "outcome": task.outcome,
        "submitter": task.submitter,
        "on_end": task.on_end,
    });
    rows.append_outbox(&OutboxEvent {
        topic,
        key,
        correlation_id: task.submitter.correlation_id.clone(),
        payload: payload.to_string(),
        subject: EventSubject::Task(task.id.clone()),
    })
}
