//! `skillhost task show`.

use std::collections::BTreeMap;

use serde::Serialize;
use skillhost_tasks::{
    Question, Task, TaskAttempt, TaskFilter, TaskId, TaskKind, TaskOutcome, TaskQueue,
};
use skillhost_terminal::{
    BOLD, CliContext, CliError, CommandResult, DIM, exit, format_arguments, format_text,
};

use crate::duration::format_duration;
use crate::task_store::{find_task, to_cli_error};
use crate::task_text::{
    describe_amounts, describe_failure, describe_state, describe_submitter, format_age,
    format_time, one_line, state_style,
};

/// The number of tasks below one that are shown.
const MAX_SUBTASKS: usize = 200;

/// A task with everything that is shown of it.
#[derive(Debug, Serialize)]
struct TaskPage {
    task: Task,
    input: String,
    attempts: Vec<TaskAttempt>,
    /// The questions that it waits for.
    questions: Vec<Question>,
    /// The tasks below it, the oldest first.
    subtasks: Vec<Task>,
}

/// Prints a task.
pub(super) async fn show_task(
    session: &CliContext,
    queue: &TaskQueue,
    given: &str,
) -> CommandResult {
    let task = find_task(queue, given).await?;
    let page = load_page(queue, task).await?;
    let output = session.output;
    if output.json {
        output.print_json(&page)?;
        return Ok(exit::OK);
    }
    let now_ms = queue.store().now_ms().await.map_err(to_cli_error)?;
    let columns = output.width().unwrap_or(usize::MAX);
    let spell = |arguments: &str| session.spell_arguments(arguments);
    page.format(now_ms, columns, &spell).iter().try_for_each(|line| output.print_line(line))?;
    Ok(exit::OK)
}

async fn load_page(queue: &TaskQueue, task: Task) -> Result<TaskPage, CliError> {
    let input = queue.input(&task.id).await.map_err(to_cli_error)?.unwrap_or_default();
    let attempts = queue.attempts(&task.id).await.map_err(to_cli_error)?;
    let mut questions = Vec::with_capacity(task.waits.questions.len());
    // Only these: closed questions are part of the lines.
    for id in &task.waits.questions {
        questions.extend(queue.question(id).await.map_err(to_cli_error)?);
    }
    let mut subtasks = Vec::new();
    let mut parents = vec![task.id.clone()];
    while let Some(parent) = parents.pop() {
        let limit = MAX_SUBTASKS.saturating_sub(subtasks.len());
        // A page is for people; `task list --root` has all of them.
        if limit == 0 {
            break;
        }
        let filter = TaskFilter { parent: Some(parent), limit, ..TaskFilter::default() };
        let children = queue.list(filter).await.map_err(to_cli_error)?;
        parents.extend(children.iter().map(|child| child.id.clone()));
        subtasks.extend(children);
    }
    // Ids start with the time of the submission.
    subtasks.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(TaskPage { task, input, attempts, questions, subtasks })
}

/// Formats a field; each further line is below the first one.
fn format_field(name: &str, value: &str) -> String {
    format!("{BOLD}{name:<10}{BOLD:#} {value}")
}

impl TaskPage {
    /// Formats the page. `spell` completes a command line of this program.
    fn format(&self, now_ms: u64, columns: usize, spell: &dyn Fn(&str) -> String) -> Vec<String> {
        let task = &self.task;
        let style = state_style(task.state);
        let state = describe_state(task, now_ms);
        let mut lines = vec![format!(
            "{BOLD}{}{BOLD:#}  {style}{state}{style:#}  {} {}",
            task.id,
            task.kind.as_str(),
            one_line(&task.target)
        )];
        lines.push(format_field("title", &one_line(&task.title)));
        lines.extend(self.waiting_lines(spell).iter().map(|line| format_field("waits for", line)));
        if let Some(progress) = &task.progress {
            let total = progress.total.map(|total| format!(" of {total}")).unwrap_or_default();
            let text = match progress.text.as_str() {
                "" => String::new(),
                text => format!(": {}", one_line(text)),
            };
            lines.push(format_field("progress", &format!("{}{total}{text}", progress.done)));
        }
        lines.push(format_field("spent", &describe_amounts(&task.spent, &task.budget)));
        lines.extend(self.fact_lines(now_ms));
        for attempt in &self.attempts {
            lines.push(format_field("attempt", &describe_attempt(attempt, now_ms)));
        }
        lines.push(String::new());
        lines.push(format!("{BOLD}input{BOLD:#}"));
        // Those of tools and extensions are JSON objects, other inputs are texts.
        lines.extend(match task.kind {
            TaskKind::Tool | TaskKind::Ext => format_arguments(&self.input, columns, false),
            _ => format_text(&self.input, columns),
        });
        lines.extend(self.outcome_lines(columns, spell));
        if !self.subtasks.is_empty() {
            lines.push(String::new());
            lines.push(format!("{BOLD}subtasks{BOLD:#}"));
            self.push_subtasks(&task.id, 1, now_ms, &mut lines);
        }
        lines
    }

    fn waiting_lines(&self, spell: &dyn Fn(&str) -> String) -> Vec<String> {
        let waits = &self.task.waits;
        let mut lines: Vec<String> = self
            .questions
            .iter()
            .map(|question| {
                let (kind, title) = (question.kind.as_str(), one_line(&question.title));
                let show = spell(&format!("inbox show {}", question.id));
                format!("an answer ({kind}): {title}; answer it: {show}")
            })
            .collect();
        lines.extend(waits.tasks.iter().map(|id| format!("the end of task {id}")));
        lines.extend(waits.after.iter().map(|id| format!("the completion of task {id}")));
        lines.extend(waits.until_ms.map(|until| format!("{} UTC", format_time(until))));
        lines
    }

    /// Formats what does not change.
    fn fact_lines(&self, now_ms: u64) -> Vec<String> {
        let task = &self.task;
        let mut lines = vec![format_field(
            "submitted",
            &format!(
                "{} UTC by {}, {} ago",
                format_time(task.created_ms),
                describe_submitter(task),
                format_age(task.created_ms, now_ms)
            ),
        )];
        let times = [("deadline", task.deadline_ms), ("ended", task.ended_ms)];
        for (name, time) in times {
            lines.extend(time.map(|ms| format_field(name, &format!("{} UTC", format_time(ms)))));
        }
        let texts = [
            ("key", task.key.clone()),
            ("lane", task.lane.clone()),
            ("thread", task.submitter.thread.clone()),
            ("parent", task.parent.as_ref().map(ToString::to_string)),
            ("retry of", task.retry_of.as_ref().map(ToString::to_string)),
            ("priority", (task.priority != 0).then(|| task.priority.to_string())),
        ];
        for (name, text) in texts {
            lines.extend(text.map(|text| format_field(name, &one_line(&text))));
        }
        lines
    }

    fn outcome_lines(&self, columns: usize, spell: &dyn Fn(&str) -> String) -> Vec<String> {
        let mut lines = Vec::new();
        match &self.task.outcome {
            None => {}
            Some(TaskOutcome::Completed { text, is_error, .. }) => {
                let failed = if *is_error { ", an error of the tool" } else { "" };
                lines.push(String::new());
                lines.push(format!("{BOLD}result{BOLD:#}{failed}"));
                lines.extend(format_text(text, columns));
            }
            Some(outcome) => {
                lines.push(String::new());
                let name = if matches!(outcome, TaskOutcome::Failed { .. }) {
                    "failed"
                } else {
                    "cancelled"
                };
                let failure = describe_failure(&self.task).unwrap_or_default();
                lines.push(format_field(name, &failure));
                if let TaskOutcome::Failed { hint, .. } = outcome
                    && !hint.is_empty()
                {
                    lines.push(format_field("hint", &one_line(hint)));
                }
                let retry = spell(&format!("task retry {}", self.task.id));
                lines.push(format_field("retry", &retry));
            }
        }
        lines
    }

    fn push_subtasks(&self, parent: &TaskId, depth: usize, now_ms: u64, lines: &mut Vec<String>) {
        let mut by_parent: BTreeMap<&TaskId, Vec<&Task>> = BTreeMap::new();
        for task in &self.subtasks {
            if let Some(parent) = &task.parent {
                by_parent.entry(parent).or_default().push(task);
            }
        }
        // The oldest is printed first, so it is the last one on the stack.
        let children = |parent: &TaskId, depth: usize| {
            let children = by_parent.get(parent).into_iter().flatten().rev();
            children.map(|child| (*child, depth)).collect::<Vec<_>>()
        };
        let mut pending = children(parent, depth);
        while let Some((task, depth)) = pending.pop() {
            let style = state_style(task.state);
            lines.push(format!(
                "{:indent$}{}  {style}{}{style:#}  {}  {}",
                "",
                task.id,
                describe_state(task, now_ms),
                one_line(&task.target),
                one_line(&task.title),
                indent = 2 * depth,
            ));
            pending.extend(children(&task.id, depth + 1));
        }
    }
}

fn describe_attempt(attempt: &TaskAttempt, now_ms: u64) -> String {
    let TaskAttempt { epoch, worker, began_ms, ended_ms, how, error } = attempt;
    let duration = format_duration(ended_ms.unwrap_or(now_ms).saturating_sub(*began_ms));
    let end = match how {
        Some(how) => format!("{how} after {duration}"),
        None => format!("for {duration}, by {}", one_line(worker)),
    };
    let error = error.as_ref().map(|error| format!(": {}", one_line(error))).unwrap_or_default();
    format!("{epoch} {DIM}{} UTC{DIM:#} {end}{error}", format_time(*began_ms))
}
