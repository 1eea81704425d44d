//! `skillhost task list`.

use serde_json::json;
use skillhost_tasks::{Task, TaskFilter, TaskQueue};
use skillhost_terminal::{CommandResult, Output, TableColumn, exit};

use crate::arguments::TaskListArgs;
use crate::task_store::{find_task, to_cli_error};
use crate::task_text::{
    describe_failure, describe_state, describe_submitter, format_age, one_line,
};

/// The number of characters of a title in a list.
const MAX_TITLE_CHARS: usize = 60;

/// Lists tasks, a page at a time.
pub(super) async fn list_tasks(
    output: Output,
    queue: &TaskQueue,
    args: &TaskListArgs,
) -> CommandResult {
    let root = match &args.root {
        Some(id) => Some(find_task(queue, id).await?.root),
        None => None,
    };
    // An id and not a number: tasks that are submitted between two pages change no page.
    let before = match &args.before {
        Some(id) => Some(find_task(queue, id).await?.id),
        None => None,
    };
    let limit = usize::from(args.limit);
    let filter = TaskFilter {
        states: args.state.iter().map(|state| (*state).into()).collect(),
        kind: args.kind.map(Into::into),
        root,
        before,
        // One more shows whether there is another page.
        limit: limit + 1,
        ..TaskFilter::default()
    };
    let mut tasks = queue.list(filter).await.map_err(to_cli_error)?;
    let has_more = tasks.len() > limit;
    tasks.truncate(limit);
    let next = tasks.last().map(|task| task.id.clone()).filter(|_| has_more);
    if output.json {
        output.print_json(&json!({ "tasks": tasks, "next": next }))?;
        return Ok(exit::OK);
    }
    if tasks.is_empty() {
        output.print_note("there are no such tasks; `skillhost task submit` submits one");
        return Ok(exit::OK);
    }
    let now_ms = queue.store().now_ms().await.map_err(to_cli_error)?;
    let rows: Vec<_> = tasks.iter().map(|task| format_row(task, now_ms)).collect();
    let columns = [
        TableColumn::fixed("TASK"),
        TableColumn::fixed("KIND").with_rank(3),
        TableColumn::text("TARGET").with_rank(1),
        TableColumn::text("STATE"),
        TableColumn::fixed("AGE").with_rank(2),
        TableColumn::text("FROM").with_rank(4),
        TableColumn::text("TITLE"),
    ];
    output.print_table(&columns, &rows)?;
    if let Some(next) = next {
        output.print_note(format!("older tasks: --before {next}"));
    }
    Ok(exit::OK)
}

fn format_row(task: &Task, now_ms: u64) -> Vec<String> {
    let state = match describe_failure(task) {
        Some(failure) => {
            // The message of a model or a tool may have any length.
            let short: String = failure.chars().take(MAX_TITLE_CHARS).collect();
            format!("{} ({short})", task.state.as_str())
        }
        None => describe_state(task, now_ms),
    };
    vec![
        task.id.to_string(),
        task.kind.as_str().to_owned(),
        task.target.clone(),
        state,
        format_age(task.created_ms, now_ms),
        describe_submitter(task),
        one_line(&task.title).chars().take(MAX_TITLE_CHARS).collect(),
    ]
}
