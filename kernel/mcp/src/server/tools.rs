//! Tools: their list and their calls.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    ListToolsResult, MetaObject, PaginatedRequestParams, ProgressNotificationParam, ProgressToken,
};
use serde_json::{Value, json};
use skillhost_payload::ToolOutput;

use super::declared::to_tool;
use super::pagination::paginate;
use super::pending_questions::CallHash;
use super::protocol_error::{to_protocol_error, unknown_parameter_error};
use super::review::{self, ElicitationOutcome};
use super::session::{McpRequestContext, ServerSession};
use crate::backend::BackendError;

/// The key in the `_meta` of a result for a value that is not structured content.
const STRUCTURED: &str = "skillhost/structured";

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
    let declared =
        session.declares(&client, &request.name).await.map_err(|e| to_protocol_error(&e))?;
    let hash = CallHash::new(&request.name, &arguments);
    if let Some(handle) = &request.request_state {
        // The tool has already run; a second run would repeat its effects.
        let answers = request.input_responses;
        let output = review::handle_answer(session, &client, hash, handle, answers).await?;
        return Ok(to_call_result(output, declared).into());
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
        Err(error) => Ok(to_error_result(&error).into()),
    }
}

/// Converts a tool output to a call result.
///
/// Clients show structured content to the model instead of the text. Therefore it is included only
/// if the tool declares it; it then has the same information as the text.
fn to_call_result(output: ToolOutput, declared: bool) -> CallToolResult {
    let content = vec![ContentBlock::text(output.text)];
    let mut result = match output.is_error {
        true => CallToolResult::error(content),
        false => CallToolResult::success(content),
    };
    match output.structured.and_then(|text| serde_json::from_str(text.get()).ok()) {
        Some(value @ Value::Object(_)) if declared && !output.is_error => {
            result.structured_content = Some(value);
        }
        Some(value) => result.meta = Some(meta_value(value)),
        None => {}
    }
    result
}

/// Returns metadata with a value that is meant for programs and hidden from models.
fn meta_value(value: Value) -> MetaObject {
    let mut meta = MetaObject::new();
    meta.insert(STRUCTURED.to_owned(), value);
    meta
}

/// Converts an error to a call result.
///
/// A protocol error would not reach the model, which may be able to correct its call.
fn to_error_result(error: &BackendError) -> CallToolResult {
    let BackendError { kind, message, hint } = error;
    let text = match hint.is_empty() {
        true => message.clone(),
        false => format!("{message}\n{hint}"),
    };
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    let described = json!({ "error": { "kind": kind, "message": message, "hint": hint } });
    // Clients validate structured content against the tool's output schema, which errors violate.
    result.meta = Some(meta_value(described));
    result
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structured_content_requires_declaration() {
        let convert = |value: &Value, is_error: bool, declared: bool| {
            let structured = serde_json::value::to_raw_value(value).ok();
            let output = ToolOutput {
                text: "Text.".to_owned(),
                structured,
                is_error,
                ..ToolOutput::default()
            };
            let result = serde_json::to_value(to_call_result(output, declared)).unwrap();
            assert_eq!(result["content"][0]["text"], "Text.");
            assert_eq!(result["isError"], is_error);
            (result["structuredContent"].clone(), result["_meta"][STRUCTURED].clone())
        };
        let object = json!({ "a": 1 });
        let null = Value::Null;
        assert_eq!(convert(&object, false, true), (object.clone(), null.clone()));
        for (value, is_error, declared) in
            [(&object, false, false), (&object, true, true), (&json!([1]), false, true)]
        {
            assert_eq!(convert(value, is_error, declared), (null.clone(), value.clone()));
        }
    }
}
