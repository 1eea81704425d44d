//! `skillhost task cancel` and `skillhost task retry`.

use serde_json::json;
use skillhost_home::Home;
use skillhost_tasks::{TaskQueue, TaskState, TaskSubmitter};
use skillhost_terminal::{CliContext, CliError, CommandResult, Output, exit};

use super::submission::print_submitted;
use crate::task_store::{OPERATOR, find_task, to_cli_error};
use crate::task_text::describe_failure;

/// Cancels a task with its subtasks.
pub(super) async fn cancel_task(output: Output, queue: &TaskQueue, given: &str) -> CommandResult {
    let id = find_task(queue, given).await?.id;
    let task = queue.cancel(id.clone(), OPERATOR).await.map_err(to_cli_error)?;
    // Cancelling twice is no conflict, and neither is one by another surface.
    if matches!(task.state, TaskState::Completed | TaskState::Failed) {
        let message = format!("task `{id}` has already {}", task.state.as_str());
        return Err(CliError::new(exit::CONFLICT, message)
            .with_hint(format!("look at it: skillhost task show {id}")));
    }
    if output.json {
        output.print_json(&json!({ "task": task }))?;
        return Ok(exit::OK);
    }
    let state = match (task.state, describe_failure(&task)) {
        (TaskState::Running, _) => "is running and ends at its next step".to_owned(),
        (_, Some(by)) => format!("is cancelled, {by}"),
        (state, None) => format!("is {}", state.as_str()),
    };
    output.print_line(format!("task {id} {state}"))?;
    Ok(exit::OK)
}

/// Submits a task again that has ended.
pub(super) async fn retry_task(
    session: &CliContext,
    home: &Home,
    queue: &TaskQueue,
    given: &str,
    fresh: bool,
) -> CommandResult {
    let old = find_task(queue, given).await?;
    // The thread that waits for the first one gets the notice of this one.
    let submitter = TaskSubmitter { thread: old.submitter.thread, ..TaskSubmitter::default() };
    let submitted = queue.retry(old.id, fresh, submitter).await.map_err(to_cli_error)?;
    print_submitted(session, home, queue, &submitted)
}
