//! Transitions with their consequences for other rows, above all the ends of tasks.

use std::collections::VecDeque;

use super::lookup::append_task_event;
use super::questions;
use super::step::{TaskEffect, TaskInput, step};
use crate::error::{QueueError, QueueErrorKind};
use crate::ids::TaskId;
use crate::store::{StoreResult, StoreTransaction};
use crate::task::{Task, TaskOutcome, TaskState};

/// The topic of the event about the end of a task; its key is the id of the task.
const ENDED: &str = "task.ended";

/// Makes a transition of a task and stores it with its consequences.
pub(super) fn apply(
    rows: &mut dyn StoreTransaction,
    task: &mut Task,
    input: TaskInput<'_>,
    now_ms: u64,
) -> StoreResult<()> {
    let effect = step(task, input, now_ms).map_err(|_| {
        let message = format!("task `{}` is {}", task.id, task.state.as_str());
        QueueError::new(QueueErrorKind::Conflict, message, "look at the task")
    })?;
    match effect {
        TaskEffect::Ends(outcome) => return end_task(rows, task, outcome, now_ms),
        TaskEffect::AttemptBegan => rows.begin_attempt(task, now_ms)?,
        TaskEffect::AttemptEnded { epoch, how, error } => {
            rows.end_attempt(&task.id, epoch, how, error.as_deref(), now_ms)?;
        }
        // Only `end_task` gives the input for an end.
        TaskEffect::None | TaskEffect::Ended { .. } => {}
    }
    rows.update_task(task)
}

/// Ends a task with everything that follows: its event, its questions, its subtasks, its parent's
/// reservation, and the tasks that wait for it.
pub(super) fn end_task(
    rows: &mut dyn StoreTransaction,
    task: &mut Task,
    outcome: TaskOutcome,
    now_ms: u64,
) -> StoreResult<()> {
    // A list instead of a recursion: chains of tasks may be long.
    let mut following = VecDeque::new();
    end_one(rows, task, outcome, now_ms, &mut following)?;
    while let Some((id, outcome)) = following.pop_front() {
        // An earlier end in the list may have ended it already.
        let Some(mut next) = rows.task(&id)?.filter(|next| !next.state.is_terminal()) else {
            continue;
        };
        end_one(rows, &mut next, outcome, now_ms, &mut following)?;
    }
    Ok(())
}

/// Cancels a task and its subtasks; running ones are only marked.
pub(super) fn cancel_tree(
    rows: &mut dyn StoreTransaction,
    task: &mut Task,
    by: &str,
    now_ms: u64,
) -> StoreResult<()> {
    if task.state.is_terminal() {
        return Ok(());
    }
    if task.state != TaskState::Running {
        // Its end cancels its subtasks.
        return apply(rows, task, TaskInput::RequestCancel { by }, now_ms);
    }
    let mut marked = VecDeque::from([task.id.clone()]);
    apply(rows, task, TaskInput::RequestCancel { by }, now_ms)?;
    while let Some(parent) = marked.pop_front() {
        for child in rows.open_children(&parent)? {
            // The end of a sibling may have changed it.
            let Some(mut child) = rows.task(&child.id)?.filter(|child| !child.state.is_terminal())
            else {
                continue;
            };
            if child.state == TaskState::Running {
                marked.push_back(child.id.clone());
            }
            apply(rows, &mut child, TaskInput::RequestCancel { by }, now_ms)?;
        }
    }
    Ok(())
}

fn end_one(
    rows: &mut dyn StoreTransaction,
    task: &mut Task,
    outcome: TaskOutcome,
    now_ms: u64,
    following: &mut VecDeque<(TaskId, TaskOutcome)>,
) -> StoreResult<()> {
    // The caller has checked that the task is open, and an open task can end in every state.
    let Ok(TaskEffect::Ended { epoch }) = step(task, TaskInput::End { outcome }, now_ms) else {
        return Ok(());
    };
    if let Some(epoch) = epoch {
        let error = match &task.outcome {
            Some(TaskOutcome::Failed { message, .. }) => Some(message.as_str()),
            _ => None,
        };
        rows.end_attempt(&task.id, epoch, task.state.as_str(), error, now_ms)?;
    }
    rows.update_task(task)?;
    append_task_event(rows, ENDED, task.id.to_string(), task)?;
    questions::withdraw_of_task(rows, &task.id, now_ms)?;
    settle_with_parent(rows, task)?;
    for mut child in rows.open_children(&task.id)? {
        let by = format!("the end of task `{}`", task.id);
        match child.state {
            // Its run ends it.
            TaskState::Running => {
                apply(rows, &mut child, TaskInput::RequestCancel { by: &by }, now_ms)?;
            }
            _ => following.push_back((child.id, TaskOutcome::Cancelled { by })),
        }
    }
    // Read after the end is stored, so that none is woken for an end that does not count.
    let completed = task.state == TaskState::Completed;
    for mut waiting in rows.waiting_for(&task.id)? {
        let input = TaskInput::EndOther { task: &task.id, completed };
        match step(&mut waiting, input, now_ms) {
            Ok(TaskEffect::Ends(outcome)) => following.push_back((waiting.id, outcome)),
            Ok(_) => rows.update_task(&waiting)?,
            // Only waiting tasks are listed.
            Err(_) => {}
        }
    }
    Ok(())
}

/// Returns the reservation of an ended task to its parent, and adds what it spent.
fn settle_with_parent(rows: &mut dyn StoreTransaction, task: &Task) -> StoreResult<()> {
    let Some(parent) = &task.parent else { return Ok(()) };
    let Some(mut parent) = rows.task(parent)?.filter(|parent| !parent.state.is_terminal()) else {
        return Ok(());
    };
    // Only the difference to what was spent is available again.
    parent.reserved = parent.reserved.saturating_sub(task.budget.reservation());
    parent.spent = parent.spent.saturating_add(task.spent);
    rows.update_task(&parent)
}
