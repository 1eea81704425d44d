//! Background tasks: the list with its filters.

use maud::{Markup, html};
use skillhost_tasks::{Task, TaskFilter, TaskId, TaskKind, TaskState};

use crate::error::PageResult;
use crate::form_fields::{path_with, path_with_query};
use crate::layout::{NavEntry, draw_badge, draw_empty};
use crate::visible_text::{draw_age, draw_text, format_duration, shorten};
use crate::visit::Visit;

/// The number of tasks of a page.
const PAGE: usize = 100;
/// The number of characters of a title.
const MAX_TITLE_CHARS: usize = 100;

const STATES: [TaskState; 6] = [
    TaskState::Ready,
    TaskState::Running,
    TaskState::Waiting,
    TaskState::Completed,
    TaskState::Failed,
    TaskState::Cancelled,
];
const KINDS: [TaskKind; 4] = [TaskKind::Agent, TaskKind::Tool, TaskKind::Ext, TaskKind::Deliver];

pub(crate) async fn list_tasks(visit: Visit) -> PageResult {
    let (state, kind) = (visit.query.get("state"), visit.query.get("kind"));
    let before = visit.query.filled("before").and_then(TaskId::parse);
    let filter = TaskFilter {
        states: STATES.into_iter().filter(|it| it.as_str() == state).collect(),
        kind: KINDS.into_iter().find(|it| it.as_str() == kind),
        before: before.clone(),
        // One more shows whether there is another page.
        limit: PAGE + 1,
        ..TaskFilter::default()
    };
    let mut tasks = visit.queue().list(filter).await?;
    // Counted before the additional row is removed.
    let has_more = tasks.len() > PAGE;
    tasks.truncate(PAGE);
    let now_ms = visit.now_ms().await?;
    let older = tasks.last().filter(|_| has_more).map(|task| {
        let fields = [("state", state), ("kind", kind), ("before", task.id.as_str())];
        path_with_query("/tasks", &fields)
    });
    let body = html! {
        h1 { "Tasks" }
        form.filters method="get" action="/tasks" {
            div {
                label for="state" { "State" }
                select #state name="state" {
                    option value="" { "every state" }
                    @for it in STATES {
                        option value=(it.as_str()) selected[it.as_str() == state] { (it.as_str()) }
                    }
                }
            }
            div {
                label for="kind" { "Kind" }
                select #kind name="kind" {
                    option value="" { "every kind" }
                    @for it in KINDS {
                        option value=(it.as_str()) selected[it.as_str() == kind] { (kind_label(it)) }
                    }
                }
            }
            button type="submit" { "Filter" }
        }
        div #tasks data-live="" {
            @if tasks.is_empty() {
                (draw_empty("There are no such tasks."))
            } @else {
                (draw_task_table(&tasks, now_ms))
            }
        }
        p.pages {
            @if before.is_some() {
                a href=(path_with_query("/tasks", &[("state", state), ("kind", kind)])) { "Newest" }
            }
            @if let Some(older) = &older { a href=(older) { "Older" } }
        }
    };
    Ok(visit.page(NavEntry::Tasks, "Tasks", &body).await)
}

/// Draws tasks as a table, which becomes a list on narrow screens.
pub(crate) fn draw_task_table(tasks: &[Task], now_ms: u64) -> Markup {
    html! {
        table.rows {
            thead { tr { th scope="col" { "Task" } th scope="col" { "State" } th scope="col" { "Target" } th scope="col" { "Age" } } }
            tbody {
                @for task in tasks {
                    tr {
                        td data-label="Task" {
                            a href=(path_with("/tasks/", task.id.as_str())) { (draw_title(task)) }
                        }
                        td data-label="State" { (draw_state(task, now_ms)) }
                        td data-label="Target" { div { (draw_target(task)) } }
                        td data-label="Age" { (draw_age(task.created_ms, now_ms)) }
                    }
                }
            }
        }
    }
}

/// Draws the state of a task, with the time until its start where that is in the future.
pub(crate) fn draw_state(task: &Task, now_ms: u64) -> Markup {
    let is_later = task.state == TaskState::Ready && task.due_ms > now_ms;
    html! {
        div {
            (draw_badge(task.state.as_str(), task.state.as_str()))
            @if is_later {
                " " (if task.is_backoff { "again in " } else { "starts in " })
                (format_duration(task.due_ms - now_ms))
            }
        }
    }
}

/// Draws the agent, tool, extension or channel that a task is for.
pub(crate) fn draw_target(task: &Task) -> Markup {
    html! { (kind_label(task.kind)) " " (draw_text(&task.target)) }
}

/// Returns the word for people.
fn kind_label(kind: TaskKind) -> &'static str {
    match kind {
        TaskKind::Ext => "extension",
        TaskKind::Deliver => "channel",
        kind => kind.as_str(),
    }
}

/// Draws the title of a task; an id where it has none, so that its link has a text.
pub(crate) fn draw_title(task: &Task) -> Markup {
    match task.title.trim() {
        "" => html! { (task.id) },
        title => draw_text(&shorten(title, MAX_TITLE_CHARS)),
    }
}
