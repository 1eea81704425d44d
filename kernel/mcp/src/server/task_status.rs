//! Tasks of the queue as clients see them.

use rmcp::model::{
    CallToolResult, DetailedTask, ErrorCode, ErrorData, InputRequests, JsonObject, TaskPayload,
    TaskStatus,
};
use serde::Serialize;
use serde_json::Value;
use skillhost_payload::{ErrorKind, ToolOutput, format_rfc3339};
use skillhost_tasks::{FailureReason, Question, QuestionKind, Task, TaskOutcome, TaskState};

use super::call_result::{to_call_result, to_error_result};
use super::task_questions::{AnswerRights, to_input_request};
use crate::backend::BackendError;

/// The time for which a client may read a task after its end: 30 days.
const KEPT_AFTER_END_MS: u64 = 30 * 24 * 3_600_000;

/// The longest status message, in characters.
const MAX_STATUS: usize = 500;

/// The poll intervals of a task without a worker, by the time since its last change.
const SLOWER_POLLS: [(u64, u64); 2] = [(60_000, 30_000), (10_000, 5_000)];

/// The poll interval of a task with a worker, in milliseconds.
const POLL_INTERVAL_MS: u64 = 1_000;

/// What is known of a task besides its row.
pub(super) struct TaskView<'v> {
    /// Its open questions.
    pub(super) questions: &'v [Question],
    /// The questions that the client may answer.
    pub(super) rights: AnswerRights,
    /// The tool declares an output schema.
    pub(super) declares_output: bool,
    /// The present, in milliseconds since 1970.
    pub(super) now_ms: u64,
}

/// The result of a task that has ended, as a plain call returns it.
pub(super) enum CallOutcome {
    /// The result of the tool, possibly of its failure.
    Result(Box<CallToolResult>),
    /// A plain call fails with this error of the protocol.
    Error(ErrorData),
    /// It was cancelled.
    Cancelled(String),
}

/// Returns a task as the client sees it when it polls.
pub(super) fn to_detailed_task(handle: &str, task: &Task, view: &TaskView<'_>) -> DetailedTask {
    let (payload, message) = to_payload(task, view);
    let mut shown = to_protocol_task(handle, task, view.now_ms);
    shown.status_message = message.map(|text| text.chars().take(MAX_STATUS).collect());
    DetailedTask::new(shown, payload)
}

/// Returns the part of a task that is the same in each state.
pub(super) fn to_protocol_task(handle: &str, task: &Task, now_ms: u64) -> rmcp::model::Task {
    let time = |ms: u64| format_rfc3339(i64::try_from(ms).unwrap_or(i64::MAX));
    let (created, changed) = (time(task.created_ms), time(task.changed_ms));
    let shown = rmcp::model::Task::new(handle, TaskStatus::Working, created, changed);
    match task.ended_ms {
        // Counted from the creation, as the protocol defines it.
        Some(ended) => shown.with_ttl_ms(ended.saturating_sub(task.created_ms) + KEPT_AFTER_END_MS),
        None => shown.with_poll_interval_ms(poll_interval_ms(task, now_ms)),
    }
}

/// Returns the outcome of a call, or `None` while its task has not ended.
pub(super) fn to_call_outcome(task: &Task, declares_output: bool) -> Option<CallOutcome> {
    Some(match task.outcome.clone()? {
        TaskOutcome::Completed { text, structured, is_error } => {
            let structured =
                structured.and_then(|value| serde_json::value::to_raw_value(&value).ok());
            let output = ToolOutput { text, structured, is_error, ..ToolOutput::default() };
            CallOutcome::Result(Box::new(to_call_result(output, declares_output)))
        }
        TaskOutcome::Failed { reason, message, hint } => {
            let (kind, code) = match reason {
                // A plain call of an unknown tool is an invalid parameter.
                FailureReason::Target => (ErrorKind::NotFound, Some(ErrorCode::INVALID_PARAMS)),
                FailureReason::Lost => (ErrorKind::Failed, Some(ErrorCode::INTERNAL_ERROR)),
                FailureReason::Crash => (ErrorKind::Panicked, Some(ErrorCode::INTERNAL_ERROR)),
                FailureReason::Budget => (ErrorKind::Denied, None),
                FailureReason::Deadline => (ErrorKind::Timeout, None),
                FailureReason::Error | FailureReason::Dependency => (ErrorKind::Failed, None),
            };
            match code {
                Some(code) => {
                    let data = serde_json::json!({ "kind": kind, "hint": hint });
                    CallOutcome::Error(ErrorData::new(code, message, Some(data)))
                }
                // The model may react to it, as to the error of a plain call.
                None => CallOutcome::Result(Box::new(to_error_result(&BackendError {
                    kind,
                    message,
                    hint,
                }))),
            }
        }
        TaskOutcome::Cancelled { by } => CallOutcome::Cancelled(by),
    })
}

fn to_payload(task: &Task, view: &TaskView<'_>) -> (TaskPayload, Option<String>) {
    match to_call_outcome(task, view.declares_output) {
        Some(CallOutcome::Result(result)) => {
            (TaskPayload::Completed { result: to_object(&*result) }, None)
        }
        Some(CallOutcome::Error(error)) => {
            (TaskPayload::Failed { error: to_object(&error) }, Some(error.message.into_owned()))
        }
        Some(CallOutcome::Cancelled(by)) => {
            (TaskPayload::Cancelled, Some(format!("cancelled by {by}")))
        }
        None => match input_requests(task, view) {
            requests if requests.is_empty() => (TaskPayload::Working, working_text(task, view)),
            input_requests => (TaskPayload::InputRequired { input_requests }, None),
        },
    }
}

/// Returns the open questions that the client may answer, by id; an id is never used again.
fn input_requests(task: &Task, view: &TaskView<'_>) -> InputRequests {
    if task.state != TaskState::Waiting {
        return InputRequests::new();
    }
    let permitted = view.questions.iter().filter(|question| view.rights.permits(question));
    let request = |question: &Question| Some((question.id.clone(), to_input_request(question)?));
    permitted.filter_map(request).collect()
}

fn working_text(task: &Task, view: &TaskView<'_>) -> Option<String> {
    match task.state {
        _ if task.cancel.is_some() => Some("is being cancelled".to_owned()),
        TaskState::Waiting => Some(waiting_text(task, view.questions)),
        TaskState::Ready if task.is_backoff => Some("is retried after a pause".to_owned()),
        TaskState::Ready => Some("waits for a worker".to_owned()),
        _ => task.progress.as_ref().map(|progress| {
            let done = match progress.total {
                Some(total) => format!("{} of {total}", progress.done),
                None => progress.done.to_string(),
            };
            match progress.text.is_empty() {
                true => done,
                false => format!("{done}: {}", progress.text),
            }
        }),
    }
}

/// Returns what a task waits for, without the content of questions that the client may not answer.
fn waiting_text(task: &Task, questions: &[Question]) -> String {
    let decision = |question: &Question| question.kind != QuestionKind::Choice;
    if questions.iter().any(decision) {
        return "waits for a decision of the operator".to_owned();
    }
    if !questions.is_empty() {
        return "waits for an answer of the operator".to_owned();
    }
    match task.waits.tasks.len() + task.waits.after.len() {
        0 => "waits until a set time".to_owned(),
        1 => "waits for another task".to_owned(),
        count => format!("waits for {count} other tasks"),
    }
}

/// Returns the suggested poll interval: slower the longer a task has been without a worker.
fn poll_interval_ms(task: &Task, now_ms: u64) -> u64 {
    let idle = now_ms.saturating_sub(task.changed_ms);
    match task.state {
        TaskState::Running => POLL_INTERVAL_MS,
        _ => SLOWER_POLLS
            .into_iter()
            .find(|(since, _)| idle >= *since)
            .map_or(POLL_INTERVAL_MS, |(_, interval)| interval),
    }
}

fn to_object(value: &impl Serialize) -> JsonObject {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        // The types of the protocol are objects.
        _ => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests;
