//! Runs that stop to wait.

use std::collections::BTreeSet;

use super::ending::apply;
use super::lookup::{append_task_event, claimed, existing};
use super::questions;
use super::step::TaskInput;
use crate::error::{QueueError, QueueErrorKind};
use crate::ids::TaskId;
use crate::operation::{NewWait, OperationOutcome, OperationResult, WaitOutcome};
use crate::question::QuestionState;
use crate::store::{StoreResult, StoreTransaction};
use crate::task::{TaskClaim, TaskState, TaskWaits, WaitMode};

/// The topic of the event about a task that waits; its key is the task's id and epoch.
const WAITING: &str = "task.waiting";
/// The limit of tasks and of questions that are waited for.
const MAX_WAITS: usize = 64;

/// Parks a task until its questions are closed, its tasks have ended and its time has come.
pub(super) fn park(
    rows: &mut dyn StoreTransaction,
    claim: &TaskClaim,
    wait: &NewWait,
    now_ms: u64,
) -> OperationResult {
    let mut task = claimed(rows, claim)?;
    if wait.tasks.len() > MAX_WAITS || wait.questions.len() > MAX_WAITS {
        let message = format!("a run waits for at most {MAX_WAITS} tasks and questions");
        return Err(QueueError::invalid(message, "wait for them in parts"));
    }
    wait.questions.iter().try_for_each(questions::check)?;
    // The checks are complete from here on, and the writes begin.
    let open_tasks = open_tasks(rows, &task.id, wait)?;
    let mut asked = Vec::with_capacity(wait.questions.len());
    for question in &wait.questions {
        asked.push(questions::ask(rows, Some(&task.id), question, now_ms)?);
    }
    let is_open = |question: &&crate::Question| question.state == QuestionState::Open;
    let waits = TaskWaits {
        questions: asked.iter().filter(is_open).map(|question| question.id.clone()).collect(),
        tasks: open_tasks,
        mode: wait.mode,
        after: Vec::new(),
        until_ms: wait.until_ms.filter(|until| *until > now_ms),
    };
    if waits.is_empty() {
        return Ok(OperationOutcome::Waiting(WaitOutcome::Satisfied(asked)));
    }
    apply(rows, &mut task, TaskInput::Park { waits }, now_ms)?;
    if task.state == TaskState::Waiting {
        append_task_event(rows, WAITING, format!("{}:{}", task.id, task.epoch), &task)?;
    }
    Ok(OperationOutcome::Waiting(WaitOutcome::Parked(asked)))
}

/// Returns the tasks that have not ended; none if one has and its end is enough.
fn open_tasks(
    rows: &mut dyn StoreTransaction,
    own: &TaskId,
    wait: &NewWait,
) -> StoreResult<Vec<TaskId>> {
    let mut open = Vec::new();
    let mut has_ended = false;
    for id in &wait.tasks {
        match existing(rows, id)?.state.is_terminal() {
            true => has_ended = true,
            false if open.contains(id) => {}
            false => open.push(id.clone()),
        }
    }
    if wait.mode == WaitMode::Any && has_ended {
        open.clear();
    }
    check_acyclic(rows, own, &open)?;
    Ok(open)
}

/// Checks that none of some tasks waits for a task, directly or through others.
fn check_acyclic(
    rows: &mut dyn StoreTransaction,
    own: &TaskId,
    awaited: &[TaskId],
) -> StoreResult<()> {
    let mut seen = BTreeSet::new();
    let mut pending = awaited.to_vec();
    while let Some(id) = pending.pop() {
        if id == *own {
            let message = format!("task `{own}` would wait for itself");
            let hint = "wait for a task that does not wait for this one";
            return Err(QueueError::new(QueueErrorKind::Cycle, message, hint));
        }
        // Several tasks may wait for the same one.
        if !seen.insert(id.clone()) {
            continue;
        }
        if let Some(task) = rows.task(&id)? {
            pending.extend(task.waits.all_tasks().cloned());
        }
    }
    Ok(())
}
