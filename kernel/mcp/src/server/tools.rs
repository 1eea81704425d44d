//! Tools: their list and their calls.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ProgressToken,
};

use super::call_inputs::{CallArguments, complete_arguments};
use super::call_result::{to_call_result, to_error_result};
use super::declared::{KnownTool, to_tool};
use super::pagination::paginate;
use super::pending_questions::CallHash;
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
        // The tool has already run; a second run would repeat its effects.
        let answers = request.input_responses;
        let output = review::handle_answer(session, &client, hash, handle, answers).await?;
        return Ok(to_call_result(output, declared).into());
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
    let call = session.backend().call(&client, &request.name, &arguments);
    let outcome = match context.meta.get_progress_token() {
        None => call.await,
        Some(token) => {
            tokio::select! {
                outcome = call => outcome,
                never = report_progress(session, context, token) => match never {},
            }
        }
    };
    match outcome {
        Ok(None) => Err(unknown_parameter_error("tool", &request.name)),
        Ok(Some(output)) => {
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
