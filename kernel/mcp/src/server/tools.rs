//! Tools: their list and their calls.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, InputResponses, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ProgressToken,
};

use serde_json::{Map, Value};
use skillhost_tasks::Question;

use super::call_consents::{ClientConsent, store_response};
use super::call_inputs::{CallArguments, complete_arguments};
use super::call_result::{to_call_result, to_error_result};
use super::declared::{KnownTool, to_tool};
use super::pagination::paginate;
use super::pending_questions::{CallHash, PendingSubject};
use super::protocol_error::{to_protocol_error, unknown_parameter_error};
use super::review::{self, ElicitationOutcome};
use super::session::{McpRequestContext, ServerSession};
use super::tasks::{self, CallMode};

/// Lists the exported tools.
pub(super) async fn list_tools(
    session: &ServerSession,
    context: &McpRequestContext,
    request: Option<PaginatedRequestParams>,
) -> Result<ListToolsResult, ErrorData> {
    let specs = session
        .backend()
        .tools(&session.client(context))
        .await
        .map_err(|e| to_protocol_error(&e))?;
    let size = session.shared.limits.page;
    let (specs, next) = paginate(&specs, |spec| &spec.name, request.as_ref(), size)?;
    let mut result = ListToolsResult::with_all_items(specs.iter().map(to_tool).collect());
    result.next_cursor = next;
    let (ttl, scope) = session.cache_control();
    Ok(result.with_ttl_ms(ttl).with_cache_scope(scope))
}

/// Calls a tool, or completes an earlier call with the answer of the client's user.
pub(super) async fn call_tool(
    session: &ServerSession,
    context: &McpRequestContext,
    request: CallToolRequestParams,
) -> Result<CallToolResponse, ErrorData> {
    let arguments = request.arguments.unwrap_or_default();
    let client = session.client(context);
    let known =
        session.known_tool(&client, &request.name).await.map_err(|e| to_protocol_error(&e))?;
    let known = known.as_deref();
    let declared = known.is_some_and(KnownTool::declares_output);
    let hash = CallHash::new(&request.name, &arguments);
    if let Some(handle) = &request.request_state {
        let pending = session.shared.pending.take(handle, hash, session.shared.limits.review);
        let answers = request.input_responses;
        return match pending.map(|pending| pending.subject) {
            // The tool has already run; a second run would repeat its effects.
            Some(PendingSubject::Review { offer, output }) => {
                let output =
                    review::handle_answer(session, &client, offer, output, answers).await?;
                Ok(to_call_result(output, declared).into())
            }
            Some(PendingSubject::Consent { question, arguments }) => {
                let by = client.agent_id();
                let shown = store_consent(session, &question, answers, &by).await?;
                let call = PlainCall { name: &request.name, arguments, hash, declared };
                make_call(session, context, call, Some(shown)).await
            }
            None => {
                let message = "requestState does not belong to this call or has expired";
                Err(ErrorData::invalid_params(message, None))
            }
        };
    }
    let mode =
        tasks::call_mode(session, context, known.map(|known| known.task).unwrap_or_default())?;
    let responses = request.input_responses.as_ref();
    // Before a task is made: its handle would not be known to the client yet.
    let arguments = match complete_arguments(context, known, arguments, responses)? {
        CallArguments::Known(arguments) => arguments,
        CallArguments::Missing(request) => return Ok((*request).into()),
    };
    match mode {
        Ok(CallMode::Plain) => {}
        Ok(CallMode::Task(tasks)) => {
            let (name, arguments) = (&request.name, &arguments);
            return tasks::call_as_task(session, context, tasks, name, arguments, known).await;
        }
        Err(error) => return Ok(to_error_result(&error).into()),
    }
    let call = PlainCall { name: &request.name, arguments, hash, declared };
    make_call(session, context, call, None).await
}

/// A call that is made in its request.
struct PlainCall<'a> {
    name: &'a str,
    arguments: Map<String, Value>,
    hash: CallHash,
    /// The tool declares an output schema.
    declared: bool,
}

/// Stores the answer to the question about a call; returns the question as it counts.
async fn store_consent(
    session: &ServerSession,
    question: &Question,
    answers: Option<InputResponses>,
    by: &str,
) -> Result<Question, ErrorData> {
    let Some(tasks) = session.backend().tasks() else {
        return Err(ErrorData::internal_error("the questions are not available", None));
    };
    let stored = store_response(tasks.questions(), question, answers, by).await;
    stored
        .map_err(|error| to_protocol_error(&error.into()))?
        .map_err(|reason| ErrorData::invalid_params(reason, None))
}

/// Makes a call, once its approval is decided where it requires one.
async fn make_call(
    session: &ServerSession,
    context: &McpRequestContext,
    call: PlainCall<'_>,
    shown: Option<Question>,
) -> Result<CallToolResponse, ErrorData> {
    let PlainCall { name, arguments, hash, declared } = call;
    let client = session.client(context);
    let consent = ClientConsent::new(session, context, hash, arguments.clone(), shown);
    let call = async {
        let backend = session.backend();
        match &consent {
            Some(consent) => backend.call_with_consent(&client, name, &arguments, consent).await,
            None => backend.call(&client, name, &arguments).await,
        }
    };
    let outcome = match context.meta.get_progress_token() {
        None => call.await,
        Some(token) => {
            tokio::select! {
                outcome = call => outcome,
                never = report_progress(session, context, token) => match never {},
            }
        }
    };
    if let Some(request) = consent.as_ref().and_then(ClientConsent::take_request) {
        return Ok(request.into());
    }
    match outcome {
        Ok(None) => Err(unknown_parameter_error("tool", name)),
        Ok(Some(mut output)) => {
            if let Some(note) = consent.as_ref().and_then(ClientConsent::take_note) {
                review::append_line(&mut output.text, &note);
            }
            match review::ask_for_review(session, context, &client, hash, output).await {
                ElicitationOutcome::Done(output) => Ok(to_call_result(output, declared).into()),
                ElicitationOutcome::Asks(request) => Ok(request.into()),
            }
        }
        // The model cannot correct a call whose target failed to answer it.
        Err(error) if error.kind.is_fault() => Err(to_protocol_error(&error)),
        Err(error) => Ok(to_error_result(&error).into()),
    }
}

/// Reports the elapsed time of a call at an interval; the total is unknown.
async fn report_progress(
    session: &ServerSession,
    context: &McpRequestContext,
    token: ProgressToken,
) -> std::convert::Infallible {
    let every = session.shared.limits.progress;
    let mut seconds = 0.0;
    loop {
        tokio::time::sleep(every).await;
        seconds += every.as_secs_f64();
        let progress = ProgressNotificationParam::new(token.clone(), seconds)
            .with_message(format!("working for {seconds} s"));
        if let Err(error) = context.peer.notify_progress(progress).await {
            tracing::debug!(%error, "progress of a call not reported");
        }
    }
}
