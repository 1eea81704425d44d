//! Background tasks: tool calls that a client polls.

use rmcp::model::{
    CallToolResponse, ClientCapabilities, CreateTaskResult, ErrorCode, ErrorData, GetTaskResult,
    RequestMetaObject, UpdateTaskParams,
};
use serde_json::{Map, Value};
use skillhost_payload::{CallError, ErrorKind, OperatorCommand, TaskSupport};
use skillhost_tasks::{Question, QueueError, QueueErrorKind, Task, TaskState};

use super::call_result::to_error_result;
use super::declared::KnownTool;
use super::protocol_error::to_protocol_error;
use super::session::{McpRequestContext, ServerSession};
use super::task_questions::{AnswerRights, UserAnswer, parse_answer};
use super::task_status::{
    CallOutcome, TaskView, to_call_outcome, to_detailed_task, to_protocol_task,
};
use crate::backend::{BackendError, ClientTasks, TaskHandle};

/// The key of the idempotency key in the `_meta` of a call.
const KEY: &str = "skillhost/key";

/// How a call of a tool is executed.
pub(super) enum CallMode<'s> {
    /// In the request.
    Plain,
    /// As a background task.
    Task(&'s ClientTasks),
}

/// Returns how a call is executed.
///
/// # Errors
/// The error that names the missing capability, if the tool requires a client that polls tasks.
/// A [`BackendError`] for the model, if the tool requires a kernel that executes tasks.
pub(super) fn call_mode<'s>(
    session: &'s ServerSession,
    context: &McpRequestContext,
    support: TaskSupport,
) -> Result<Result<CallMode<'s>, BackendError>, ErrorData> {
    let polls = context.client_capabilities().is_some_and(|client| client.supports_tasks());
    if support == TaskSupport::Must && !polls {
        let required = ClientCapabilities::builder().enable_tasks().build();
        return Err(ErrorData::missing_required_client_capability(required));
    }
    let served = session.backend().tasks().filter(|tasks| tasks.is_served());
    Ok(match (support, served) {
        (TaskSupport::May | TaskSupport::Must, Some(tasks)) if polls => Ok(CallMode::Task(tasks)),
        (TaskSupport::Must, _) => Err(BackendError {
            kind: ErrorKind::Unavailable,
            message: "the tool runs as a background task, and no kernel executes tasks".to_owned(),
            hint: format!("run: {}", OperatorCommand::RunKernel),
        }),
        // Without a kernel the call is executed here, and the client waits for its result.
        _ => Ok(CallMode::Plain),
    })
}

/// Submits a call as a task; returns its result if it ends soon, else the handle of the task.
pub(super) async fn call_as_task(
    session: &ServerSession,
    context: &McpRequestContext,
    tasks: &ClientTasks,
    name: &str,
    arguments: &Map<String, Value>,
    known: Option<&KnownTool>,
) -> Result<CallToolResponse, ErrorData> {
    let client = session.client(context);
    let key = idempotency_key(&context.meta)?;
    let task = match session.backend().new_task(&client, name, arguments) {
        Ok(task) => task,
        Err(error) => return Ok(to_error_result(&error).into()),
    };
    let (handle, task) = tasks
        .submit(&session.principal, client.agent_id(), key, task)
        .await
        .map_err(to_task_error)?;
    let task =
        tasks.wait_for_end(task, session.shared.limits.task_answer).await.map_err(to_task_error)?;
    let declares_output = known.is_some_and(KnownTool::declares_output);
    match to_call_outcome(&task, declares_output) {
        Some(CallOutcome::Result(result)) => Ok((*result).into()),
        Some(CallOutcome::Error(error)) => Err(error),
        // The client learns of the cancellation when it polls.
        Some(CallOutcome::Cancelled(_)) | None => {
            let now_ms = tasks.now_ms().await.map_err(to_task_error)?;
            let seed = to_protocol_task(handle.as_str(), &task, now_ms);
            Ok(CreateTaskResult::new(seed).into())
        }
    }
}

/// Returns the state of a task.
pub(super) async fn get_task(
    session: &ServerSession,
    context: &McpRequestContext,
    handle: &str,
) -> Result<GetTaskResult, ErrorData> {
    let (tasks, task) = find_task(session, handle).await?;
    let questions = open_questions(tasks, &task).await?;
    let client = session.client(context);
    let known = session.known_tool(&client, &task.target).await;
    let known = known.map_err(|error| to_protocol_error(&error))?;
    let view = TaskView {
        questions: &questions,
        rights: answer_rights(tasks, context),
        declares_output: known.is_some_and(|known| known.declares_output()),
        now_ms: tasks.now_ms().await.map_err(to_task_error)?,
    };
    Ok(GetTaskResult::new(to_detailed_task(handle, &task, &view)))
}

/// Stores the answers to questions of a task; unknown and closed questions are ignored.
pub(super) async fn update_task(
    session: &ServerSession,
    context: &McpRequestContext,
    request: &UpdateTaskParams,
) -> Result<(), ErrorData> {
    let (tasks, task) = find_task(session, &request.task_id).await?;
    let questions = open_questions(tasks, &task).await?;
    let rights = answer_rights(tasks, context);
    let mut answers = Vec::new();
    // All answers are checked before the first one is stored.
    for question in questions.iter().filter(|question| rights.permits(question)) {
        let Some(response) = request.input_responses.get(&question.id) else { continue };
        let answer = parse_answer(question, response).map_err(|reason| {
            let message = format!("response to {:?} is not valid: {reason}", question.id);
            ErrorData::invalid_params(message, None)
        })?;
        answers.push((question, answer));
    }
    let by = session.client(context).agent_id();
    for (question, answer) in answers {
        store_answer(tasks, question, answer, &by).await.map_err(to_task_error)?;
    }
    Ok(())
}

/// Requests the end of a task; one that has ended stays as it is.
pub(super) async fn cancel_task(
    session: &ServerSession,
    context: &McpRequestContext,
    handle: &str,
) -> Result<(), ErrorData> {
    let (tasks, task) = find_task(session, handle).await?;
    if task.state.is_terminal() {
        return Ok(());
    }
    let by = session.client(context).agent_id();
    tasks.cancel(&task.id, &by).await.map_err(to_task_error)
}

async fn store_answer(
    tasks: &ClientTasks,
    question: &Question,
    answer: UserAnswer,
    by: &str,
) -> Result<(), QueueError> {
    match answer {
        UserAnswer::Choice(choice, reason) => tasks.decide(question, choice, reason, by).await,
        // A refusal is a choice where it is offered.
        UserAnswer::Declined if question.options.iter().any(|option| option == "refuse") => {
            tasks.decide(question, "refuse".to_owned(), None, by).await
        }
        UserAnswer::Declined => tasks.decline(question, by).await,
        UserAnswer::Dismissed => Ok(()),
    }
}

/// Finds the task of a handle; that of another principal looks like an unknown one.
async fn find_task<'s>(
    session: &'s ServerSession,
    handle: &str,
) -> Result<(&'s ClientTasks, Task), ErrorData> {
    // The library answers no method of tasks unless the backend has some.
    let unknown = || ErrorData::invalid_params("task not found", None);
    let tasks = session.backend().tasks().ok_or_else(unknown)?;
    let handle = TaskHandle::from_client(handle);
    let task = tasks.find(&session.principal, &handle).await.map_err(to_task_error)?;
    Ok((tasks, task.ok_or_else(unknown)?))
}

async fn open_questions(tasks: &ClientTasks, task: &Task) -> Result<Vec<Question>, ErrorData> {
    match task.state {
        TaskState::Waiting => tasks.open_questions(&task.id).await.map_err(to_task_error),
        _ => Ok(Vec::new()),
    }
}

/// Returns the questions that a client may answer.
pub(super) fn answer_rights(tasks: &ClientTasks, context: &McpRequestContext) -> AnswerRights {
    let elicitation = context.client_capabilities().and_then(|client| client.elicitation);
    // The ability to open an address is not enough. Older clients declare `form` by an empty value.
    let has_forms = elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none());
    AnswerRights { has_forms, has_consents: tasks.permits_consents() }
}

/// Returns the idempotency key of a call.
fn idempotency_key(meta: &RequestMetaObject) -> Result<Option<String>, ErrorData> {
    match meta.get(KEY) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(key)) => Ok(Some(key.clone())),
        Some(_) => Err(ErrorData::invalid_params(format!("_meta[{KEY:?}] is not a text"), None)),
    }
}

/// Converts an error of the queue; an input that is not accepted is an invalid parameter.
fn to_task_error(error: QueueError) -> ErrorData {
    let is_input = matches!(
        error.kind(),
        QueueErrorKind::Invalid | QueueErrorKind::TooLarge | QueueErrorKind::Conflict
    );
    let shown = to_protocol_error(&CallError::from(error).into());
    match is_input {
        true => ErrorData { code: ErrorCode::INVALID_PARAMS, ..shown },
        false => shown,
    }
}

#[cfg(test)]
mod tests;
