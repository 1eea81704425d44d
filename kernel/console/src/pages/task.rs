//! A task: its facts, its tree, its attempts and its lines.

use std::collections::BTreeMap;

use axum::extract::Path;
use maud::{Markup, html};
use serde_json::{Map, Value};
use skillhost_conversation::Message;
use skillhost_tasks::{
    Task, TaskAmounts, TaskAttempt, TaskBudget, TaskFilter, TaskId, TaskLine, TaskOutcome,
    TaskState, TaskSubmitter,
};

use crate::error::{ConsoleError, PageResult};
use crate::form_fields::path_with;
use crate::layout::{NavEntry, draw_badge, draw_facts};
use crate::markdown_view::draw_markdown;
use crate::pages::tasks::{draw_state, draw_target, draw_title};
use crate::subject_view::{draw_arguments, draw_value};
use crate::visible_text::{
    draw_age, draw_error_text, draw_text, draw_time, format_count, format_duration, group_digits,
};
use crate::visit::{Visit, redirect_to};

/// The name under which the console changes tasks.
const OPERATOR: &str = "operator";
/// The number of the newest lines that are drawn.
const MAX_LINES: usize = 200;
/// The number of tasks of a tree that are drawn.
const MAX_TREE: usize = 200;

async fn find_task(visit: &Visit, id: &str) -> Result<Task, ConsoleError> {
    let id = TaskId::parse(id).ok_or_else(|| ConsoleError::not_found("this task"))?;
    visit.queue().find(&id).await?.ok_or_else(|| ConsoleError::not_found("this task"))
}

pub(crate) async fn cancel_task(visit: Visit, Path(id): Path<String>) -> PageResult {
    let task = find_task(&visit, &id).await?;
    visit.queue().cancel(task.id, OPERATOR).await?;
    Ok(redirect_to(&path_with("/tasks/", &id)))
}

/// Submits a task again that has ended.
pub(crate) async fn retry_task(visit: Visit, Path(id): Path<String>) -> PageResult {
    let task = find_task(&visit, &id).await?;
    // The thread that waits for the first one gets the notice of this one.
    let submitter =
        TaskSubmitter { thread: task.submitter.thread.clone(), ..TaskSubmitter::default() };
    let fresh = visit.form.get("fresh") == "1";
    let submitted = visit.queue().retry(task.id, fresh, submitter).await?;
    Ok(redirect_to(&path_with("/tasks/", submitted.task.id.as_str())))
}

pub(crate) async fn show_task(visit: Visit, Path(id): Path<String>) -> PageResult {
    let task = find_task(&visit, &id).await?;
    let queue = visit.queue();
    let filter =
        TaskFilter { root: Some(task.root.clone()), limit: MAX_TREE, ..TaskFilter::default() };
    let tree = queue.list(filter).await?;
    let attempts = queue.attempts(&task.id).await?;
    // The newest lines are those of interest while a task runs.
    let first = task.lines.saturating_sub(MAX_LINES as u64);
    let lines = queue.lines(&task.id, first, MAX_LINES).await?;
    let input = queue.input(&task.id).await?;
    let now_ms = visit.now_ms().await?;
    let body = html! {
        p.crumbs { a href="/tasks" { "Tasks" } }
        h1 { (draw_title(&task)) }
        div #task data-live="" {
            (draw_state(&task, now_ms))
            (draw_facts(&task_facts(&task, now_ms)))
            (draw_actions(&visit, &task))
            (draw_outcome(&task))
            @if let Some(input) = &input {
                details {
                    summary { "Input" }
                    (draw_arguments(input))
                }
            }
            @if tree.len() > 1 {
                section { h2 { "Tree" } (draw_tree(&tree, &task)) }
            }
            (draw_attempts(&attempts, now_ms))
            (draw_lines(&lines, first))
        }
    };
    Ok(visit.page(NavEntry::Tasks, "Task", &body).await)
}

fn task_facts(task: &Task, now_ms: u64) -> Vec<(&'static str, Markup)> {
    let mut facts = vec![
        ("Target", draw_target(task)),
        (
            "Submitted",
            html! { (draw_time(task.created_ms)) ", " span.unbroken { (draw_age(task.created_ms, now_ms)) " ago" } },
        ),
        ("Attempts", html! { (task.attempt) }),
        ("Spent", draw_amounts(&task.spent, &task.budget)),
    ];
    if let Some(progress) = &task.progress {
        facts.push((
            "Progress",
            html! {
                (progress.done)
                @if let Some(total) = progress.total { " of " (total) }
                " " (draw_text(&progress.text))
            },
        ));
    }
    if !task.waits.questions.is_empty() {
        facts.push((
            "Waits for",
            html! {
                @for question in &task.waits.questions {
                    a href=(path_with("/inbox/", question)) { "a decision" } " "
                }
            },
        ));
    }
    if let Some(thread) = &task.submitter.thread {
        let link = html! { a href=(path_with("/threads/", thread)) { (draw_text(thread)) } };
        facts.push(("Thread", link));
    }
    if let Some(agent) = &task.submitter.agent {
        facts.push(("Submitted by", draw_text(agent)));
    }
    if let Some(retried) = &task.retry_of {
        let path = path_with("/tasks/", retried.as_str());
        facts.push(("Repeats", html! { a href=(path) { (retried) } }));
    }
    facts.push(("Id", html! { code { (task.id) } }));
    facts
}

/// Draws the spent amounts with their limits.
fn draw_amounts(spent: &TaskAmounts, budget: &TaskBudget) -> Markup {
    let rows: [(&str, u64, Option<u64>); 2] =
        [("request", spent.turns, budget.turns), ("token", spent.tokens, budget.tokens)];
    html! {
        @for (unit, amount, limit) in rows {
            @if amount > 0 || limit.is_some() {
                @match limit {
                    Some(limit) => { (group_digits(amount)) " of " (format_count(limit, unit)) }
                    None => (format_count(amount, unit)),
                }
                ", "
            }
        }
        span.unbroken {
            (format_duration(spent.time_ms))
            @if let Some(limit) = budget.time_ms { " of " (format_duration(limit)) }
        }
        @if spent.cost > 0 || budget.cost.is_some() {
            ", " (format_dollars(spent.cost))
            @if let Some(limit) = budget.cost { " of " (format_dollars(limit)) }
        }
    }
}

/// Formats millionths of a dollar.
fn format_dollars(millionths: u64) -> String {
    format!("${}.{:04}", millionths / 1_000_000, millionths % 1_000_000 / 100)
}

fn draw_actions(visit: &Visit, task: &Task) -> Markup {
    let path = path_with("/tasks/", task.id.as_str());
    let is_ended = task.state.is_terminal();
    html! {
        div.buttons {
            @if !is_ended {
                form method="post" action={ (path) "/cancel" } {
                    (visit.csrf_field())
                    button.danger type="submit" { "Cancel the task" }
                }
            }
            @if matches!(task.state, TaskState::Failed | TaskState::Cancelled) {
                form method="post" action={ (path) "/retry" } {
                    (visit.csrf_field())
                    button.primary type="submit" { "Retry from where it stopped" }
                }
            }
            @if is_ended {
                form method="post" action={ (path) "/retry" } {
                    (visit.csrf_field())
                    input type="hidden" name="fresh" value="1";
                    button type="submit" { "Run again from the start" }
                }
            }
        }
        @if let Some(by) = task.cancel.as_ref().filter(|_| !is_ended) {
            p.hint { "Cancelled by " (draw_text(by)) "; it ends at its next step." }
        }
    }
}

fn draw_outcome(task: &Task) -> Markup {
    let Some(outcome) = &task.outcome else { return html! {} };
    html! {
        section {
            h2 { "Outcome" }
            @match outcome {
                TaskOutcome::Completed { text, is_error, .. } => {
                    @if *is_error { p { (draw_badge("error", "error of the tool")) } }
                    (draw_markdown(text))
                }
                TaskOutcome::Failed { message, hint, .. } => {
                    pre.text { (draw_error_text(message)) }
                    @if !hint.is_empty() { p.hint { (draw_error_text(hint)) } }
                }
                TaskOutcome::Cancelled { by } => p { "Cancelled by " (draw_text(by)) "." },
            }
        }
    }
}

/// Draws the tasks of a tree with their depth; the oldest first.
fn draw_tree(tree: &[Task], shown: &Task) -> Markup {
    let mut children: BTreeMap<Option<&TaskId>, Vec<&Task>> = BTreeMap::new();
    for task in tree {
        children.entry(task.parent.as_ref()).or_default().push(task);
    }
    // A stack instead of recursion. The newest are listed first, so the oldest is taken last.
    let mut pending = children.get(&None).cloned().unwrap_or_default();
    let mut rows = Vec::new();
    while let Some(task) = pending.pop() {
        rows.push(task);
        pending.extend(children.get(&Some(&task.id)).into_iter().flatten().copied());
    }
    html! {
        ul.tree {
            @for task in &rows {
                li class={ "depth-" (task.depth.min(8)) } {
                    (draw_badge(task.state.as_str(), task.state.as_str())) " "
                    @if task.id == shown.id { strong { (draw_title(task)) } }
                    @else { a href=(path_with("/tasks/", task.id.as_str())) { (draw_title(task)) } }
                    " " span.hint { (draw_text(&task.target)) }
                }
            }
        }
        @if tree.len() == MAX_TREE { p.hint { "Only " (MAX_TREE) " tasks of the tree are shown." } }
    }
}

fn draw_attempts(attempts: &[TaskAttempt], now_ms: u64) -> Markup {
    html! {
        @if !attempts.is_empty() {
            section {
                h2 { "Attempts" }
                table.rows {
                    thead { tr { th scope="col" { "Began" } th scope="col" { "Took" } th scope="col" { "End" } th scope="col" { "Error" } } }
                    tbody {
                        @for attempt in attempts {
                            @let took = attempt.ended_ms.unwrap_or(now_ms).saturating_sub(attempt.began_ms);
                            tr {
                                td data-label="Began" { (draw_time(attempt.began_ms)) }
                                td data-label="Took" { (format_duration(took)) }
                                td data-label="End" { (draw_text(attempt.how.as_deref().unwrap_or("runs now"))) }
                                td data-label="Error" { div { (draw_error_text(attempt.error.as_deref().unwrap_or("–"))) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn draw_lines(lines: &[TaskLine], first: u64) -> Markup {
    html! {
        @if !lines.is_empty() {
            section {
                h2 { "Log" }
                @if first > 0 { p.hint { "Without the first " (format_count(first, "line")) "." } }
                ol.lines { @for line in lines { li { (draw_line(&line.line)) } } }
            }
        }
    }
}

/// Draws a line of a task's journal: a message, or an entry with its fields.
fn draw_line(line: &str) -> Markup {
    let Ok(Value::Object(mut fields)) = serde_json::from_str(line) else {
        return html! { pre.text { (draw_text(line)) } };
    };
    let time = fields.remove("at").and_then(|at| at.as_u64());
    // The checksum of the journal's line is of no use to a reader.
    fields.remove("sum");
    let message = fields.get("message").cloned();
    let message = message.and_then(|message| serde_json::from_value::<Message>(message).ok());
    html! {
        @if let Some(time) = time { span.hint { (draw_time(time)) " " } }
        @match message {
            Some(message) => (draw_message(&message)),
            None => (draw_entry(fields)),
        }
    }
}

fn draw_message(message: &Message) -> Markup {
    match message {
        Message::User { text } => html! { strong { "user" } pre.text { (draw_text(text)) } },
        Message::Assistant { text, calls } => html! {
            strong { "agent" }
            @if !text.is_empty() { (draw_markdown(text)) }
            @for call in calls {
                details.call {
                    summary { span.tool { (draw_text(&call.name)) } }
                    (draw_arguments(&call.arguments))
                }
            }
        },
        Message::Tool { name, text, is_error, .. } => html! {
            strong { "tool " (draw_text(name)) }
            @if *is_error { " " (draw_badge("error", "failed")) }
            pre.code tabindex="0" { (draw_text(text)) }
        },
    }
}

fn draw_entry(mut fields: Map<String, Value>) -> Markup {
    let name = fields.remove("entry").and_then(|name| name.as_str().map(str::to_owned));
    html! {
        strong { (draw_text(name.as_deref().unwrap_or("start"))) }
        @if !fields.is_empty() { (draw_value(&Value::Object(fields), 1)) }
    }
}
