//! The submission of tasks.

use super::ending;
use super::lookup::{append_task_event, existing};
use crate::amounts::TaskAmounts;
use crate::error::{QueueError, QueueErrorKind};
use crate::ids::TaskId;
use crate::operation::{
    HandleBinding, MAX_INPUT_BYTES, NewTask, OperationOutcome, OperationResult, SubmitOutcome,
};
use crate::store::{StoreResult, StoreTransaction};
use crate::task::{FailureReason, Task, TaskOutcome, TaskState, TaskSubmitter, TaskWaits};

/// The topic of the event about a submission; its key is the id of the task.
const SUBMITTED: &str = "task.submitted";
/// The depth limit of subtasks.
const MAX_DEPTH: u32 = 8;
/// The limit of open tasks below one outermost task.
const MAX_OPEN: usize = 64;
/// The limit of tasks that a task comes after.
const MAX_AFTER: usize = 64;
/// The length limit of targets, keys, scopes and lanes, in bytes.
const MAX_NAME_BYTES: usize = 512;
/// The length limit of a title, in characters; a longer one is cut.
const MAX_TITLE_CHARS: usize = 200;

/// Submits a task, or returns the one that has its key; the handle finds either.
pub(super) fn submit(
    rows: &mut dyn StoreTransaction,
    new: NewTask,
    now_ms: u64,
) -> OperationResult {
    check(&new, now_ms)?;
    let input_sha256 = skillhost_files::sha256_hex(new.input.as_bytes());
    if let Some(key) = &new.key
        && let Some(known) = rows.task_by_key(&new.scope, key)?
    {
        // By digest, as the input itself may be large.
        let is_same = (known.kind, &known.target, &known.input_sha256)
            == (new.kind, &new.target, &input_sha256);
        if !is_same {
            let message = format!("key `{key}` belongs to task `{}` with another input", known.id);
            let hint = "use another key, or submit the same target and input";
            return Err(QueueError::new(QueueErrorKind::Conflict, message, hint));
        }
        let task = newest_of_chain(rows, known)?;
        bind(rows, &task.id, new.handle.as_ref())?;
        return Ok(submitted(task, false));
    }
    check_new_id(rows, &new.id)?;
    let mut task = Task {
        id: new.id.clone(),
        kind: new.kind,
        target: new.target,
        title: new.title.chars().take(MAX_TITLE_CHARS).collect(),
        input_sha256,
        state: TaskState::Ready,
        lane: new.lane,
        priority: new.priority,
        // Not the present: a clock that is set back later must not delay it.
        due_ms: new.due_ms.unwrap_or(0),
        is_backoff: false,
        deadline_ms: new.deadline_ms,
        attempt: 0,
        stalled: 0,
        retries: 0,
        epoch: 0,
        worker: None,
        lease_ms: None,
        budget: new.budget,
        spent: TaskAmounts::default(),
        reserved: TaskAmounts::default(),
        parent: new.parent,
        root: new.id,
        depth: 0,
        waits: TaskWaits::default(),
        scope: new.scope,
        key: new.key,
        submitter: new.submitter,
        on_end: new.on_end,
        progress: None,
        cancel: None,
        outcome: None,
        retry_of: None,
        lines: 0,
        created_ms: now_ms,
        started_ms: None,
        changed_ms: now_ms,
        ended_ms: None,
    };
    let parent = place_below_parent(rows, &mut task)?;
    let failed = resolve_dependencies(rows, &mut task, &new.after)?;
    if let Some(parent) = parent {
        rows.update_task(&parent)?;
    }
    let outcome = insert(rows, &mut task, &new.input, failed, now_ms)?;
    bind(rows, &task.id, new.handle.as_ref())?;
    Ok(outcome)
}

fn bind(
    rows: &mut dyn StoreTransaction,
    task: &TaskId,
    handle: Option<&HandleBinding>,
) -> StoreResult<()> {
    match handle {
        Some(handle) => rows.insert_handle(&handle.sha256, task, &handle.principal),
        None => Ok(()),
    }
}

/// Submits a terminal task again.
pub(super) fn submit_again(
    rows: &mut dyn StoreTransaction,
    id: &TaskId,
    new_id: TaskId,
    fresh: bool,
    submitter: TaskSubmitter,
    now_ms: u64,
) -> OperationResult {
    let old = existing(rows, id)?;
    let conflict = |message: String, hint: &'static str| {
        Err(QueueError::new(QueueErrorKind::Conflict, message, hint))
    };
    if !old.state.is_terminal() {
        let message = format!("task `{id}` is {}", old.state.as_str());
        return conflict(message, "wait for its end, or cancel it");
    }
    // Two tasks of one chain could both do the work.
    if let Some(next) = rows.retry_of(id)? {
        return conflict(format!("task `{id}` was retried as `{}`", next.id), "retry that one");
    }
    // Read before the first write, as a refusal must come before it.
    check_new_id(rows, &new_id)?;
    let input = rows.input(id)?;
    let mut task = Task {
        id: new_id.clone(),
        state: TaskState::Ready,
        due_ms: 0,
        is_backoff: false,
        // The deadline of the first one may be the reason of its failure.
        deadline_ms: old.deadline_ms.filter(|deadline| *deadline > now_ms),
        attempt: 0,
        stalled: 0,
        retries: 0,
        epoch: 0,
        worker: None,
        lease_ms: None,
        spent: TaskAmounts::default(),
        reserved: TaskAmounts::default(),
        // Its parent has ended or goes on without it.
        parent: None,
        root: new_id,
        depth: 0,
        waits: TaskWaits::default(),
        // The key stays with the first one of the chain.
        key: None,
        submitter,
        progress: None,
        cancel: None,
        outcome: None,
        retry_of: Some(old.id.clone()),
        lines: 0,
        created_ms: now_ms,
        started_ms: None,
        changed_ms: now_ms,
        ended_ms: None,
        ..old
    };
    let outcome = insert(rows, &mut task, &input, None, now_ms)?;
    if fresh {
        return Ok(outcome);
    }
    task.lines = rows.copy_lines(id, &task.id)?;
    rows.update_task(&task)?;
    Ok(submitted(task, true))
}

fn insert(
    rows: &mut dyn StoreTransaction,
    task: &mut Task,
    input: &str,
    failed: Option<TaskId>,
    now_ms: u64,
) -> OperationResult {
    rows.insert_task(task, input)?;
    append_task_event(rows, SUBMITTED, task.id.to_string(), task)?;
    if let Some(other) = failed {
        let message = format!("task `{other}`, which it comes after, did not complete");
        let outcome = TaskOutcome::failed(FailureReason::Dependency, message);
        ending::end_task(rows, task, outcome, now_ms)?;
    }
    Ok(submitted(task.clone(), true))
}

fn submitted(task: Task, created: bool) -> OperationOutcome {
    OperationOutcome::Submitted(Box::new(SubmitOutcome { task, created }))
}

/// Checks that no task has the id of a new one.
fn check_new_id(rows: &mut dyn StoreTransaction, id: &TaskId) -> StoreResult<()> {
    match rows.task(id)? {
        None => Ok(()),
        Some(_) => {
            let message = format!("task `{id}` exists");
            Err(QueueError::new(QueueErrorKind::Conflict, message, "generate another id"))
        }
    }
}

fn check(new: &NewTask, now_ms: u64) -> StoreResult<()> {
    if new.input.len() > MAX_INPUT_BYTES {
        let message = format!("input has {} bytes, at most {MAX_INPUT_BYTES}", new.input.len());
        let hint = "store it in a file and pass its path";
        return Err(QueueError::new(QueueErrorKind::TooLarge, message, hint));
    }
    if new.target.is_empty() {
        return Err(QueueError::invalid("target is empty", "name an agent, tool or provider"));
    }
    let names = [
        ("target", Some(&new.target)),
        ("key", new.key.as_ref()),
        ("scope", Some(&new.scope)),
        ("lane", new.lane.as_ref()),
    ];
    for (name, value) in names {
        if value.is_some_and(|value| value.len() > MAX_NAME_BYTES) {
            let message = format!("{name} has more than {MAX_NAME_BYTES} bytes");
            return Err(QueueError::new(QueueErrorKind::TooLarge, message, "shorten it"));
        }
    }
    if new.key.as_ref().is_some_and(String::is_empty) {
        return Err(QueueError::invalid("key is empty", "omit it, or choose a text"));
    }
    if new.after.len() > MAX_AFTER {
        let message = format!("`after` has more than {MAX_AFTER} tasks");
        return Err(QueueError::invalid(message, "submit a task between them"));
    }
    if new.deadline_ms.is_some_and(|deadline| deadline <= now_ms) {
        return Err(QueueError::invalid("deadline has passed", "choose a later one"));
    }
    new.budget.check()
}

/// Places a subtask below its parent and reserves its budget; returns the changed parent.
fn place_below_parent(
    rows: &mut dyn StoreTransaction,
    task: &mut Task,
) -> StoreResult<Option<Task>> {
    let Some(id) = &task.parent else { return Ok(None) };
    let mut parent = existing(rows, id)?;
    if parent.state.is_terminal() {
        let message = format!("parent task `{id}` is {}", parent.state.as_str());
        return Err(QueueError::new(
            QueueErrorKind::Conflict,
            message,
            "submit it without a parent",
        ));
    }
    let limit = |message: String| {
        Err(QueueError::new(QueueErrorKind::Limit, message, "wait for other tasks, or do it here"))
    };
    if parent.depth + 1 > MAX_DEPTH {
        return limit(format!("subtasks are {MAX_DEPTH} levels deep, the limit"));
    }
    if rows.count_open(&parent.root)? >= MAX_OPEN {
        return limit(format!("task `{}` has {MAX_OPEN} open subtasks, the limit", parent.root));
    }
    // What open subtasks may still spend is not available to this one.
    let rest = parent.budget.remaining(parent.spent, parent.reserved);
    task.budget = task.budget.grant_from_rest(&rest)?;
    parent.reserved = parent.reserved.saturating_add(task.budget.reservation());
    (task.root, task.depth) = (parent.root.clone(), parent.depth + 1);
    Ok(Some(parent))
}

/// Makes a task wait for the tasks that it comes after; returns one that did not complete.
fn resolve_dependencies(
    rows: &mut dyn StoreTransaction,
    task: &mut Task,
    after: &[TaskId],
) -> StoreResult<Option<TaskId>> {
    let mut ancestors = Vec::new();
    // At most as many as the depth limit.
    let mut above = task.parent.clone();
    while let Some(id) = above {
        above = existing(rows, &id)?.parent;
        ancestors.push(id);
    }
    let mut failed = None;
    for id in after {
        // An ancestor ends after its subtasks, so both would wait forever.
        if *id == task.id || ancestors.contains(id) {
            let message = format!("`after` names task `{id}`, which this task is a part of");
            let hint = "name only tasks that can end before it";
            return Err(QueueError::new(QueueErrorKind::Cycle, message, hint));
        }
        match existing(rows, id)?.state {
            TaskState::Completed => {}
            TaskState::Failed | TaskState::Cancelled => {
                failed.get_or_insert_with(|| id.clone());
            }
            _ if task.waits.after.contains(id) => {}
            _ => task.waits.after.push(id.clone()),
        }
    }
    if !task.waits.is_empty() {
        task.state = TaskState::Waiting;
    }
    Ok(failed)
}

/// Returns the last task of a chain of retries.
fn newest_of_chain(rows: &mut dyn StoreTransaction, mut task: Task) -> StoreResult<Task> {
    while let Some(next) = rows.retry_of(&task.id)? {
        task = next;
    }
    Ok(task)
}
