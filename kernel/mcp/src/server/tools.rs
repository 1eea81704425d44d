//! Tools: what there is to call, and calls.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    ListToolsResult, MetaObject, PaginatedRequestParams, ProgressNotificationParam, ProgressToken,
    Tool, ToolAnnotations,
};
use serde_json::{Value, json};
use skillhost_contract::payload::{ToolOutput, ToolSpec};

use super::page::page;
use super::{Context, Session, refused, review, unknown};
use crate::backend::BackendError;

/// Where in the `_meta` of a result programs find the tool's value.
const STRUCTURED: &str = "skillhost/structured";

pub(super) async fn list(
    session: &Session,
    context: &Context,
    request: Option<PaginatedRequestParams>,
) -> Result<ListToolsResult, ErrorData> {
    let specs = session.backend().tools(&session.client(context)).await.map_err(|e| refused(&e))?;
    let size = session.shared.limits.page;
    let (specs, next) = page(&specs, |spec| &spec.name, request.as_ref(), size)?;
    let mut result = ListToolsResult::with_all_items(specs.iter().map(tool).collect());
    result.next_cursor = next;
    let (ttl, scope) = session.freshness();
    Ok(result.with_ttl_ms(ttl).with_cache_scope(scope))
}

fn tool(spec: &ToolSpec) -> Tool {
    let object = |value: &Value| Arc::new(value.as_object().cloned().unwrap_or_default());
    let annotations = ToolAnnotations::new()
        .read_only(spec.read_only)
        .destructive(spec.destructive)
        // What a tool reaches is its owner's business; none of ours says more than this.
        .open_world(false);
    Tool::new(spec.name.clone(), spec.description.clone(), object(&spec.input_schema))
        .with_annotations(annotations)
}

pub(super) async fn call(
    session: &Session,
    context: &Context,
    request: CallToolRequestParams,
) -> Result<CallToolResponse, ErrorData> {
    let arguments = request.arguments.unwrap_or_default();
    let client = session.client(context);
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
        Ok(None) => Err(unknown("tool", &request.name)),
        Ok(Some(mut output)) => {
            review::ask(session, context, &client, &mut output).await;
            Ok(result(output).into())
        }
        Err(error) => Ok(failure(&error).into()),
    }
}

fn result(output: ToolOutput) -> CallToolResult {
    let content = vec![ContentBlock::text(output.text)];
    let mut result = match output.is_error {
        true => CallToolResult::error(content),
        false => CallToolResult::success(content),
    };
    // Not as structured content: clients that get one show it to the model instead of the text.
    if let Some(value) = output.structured.and_then(|text| serde_json::from_str(text.get()).ok()) {
        let mut meta = MetaObject::new();
        meta.insert(STRUCTURED.to_owned(), value);
        result.meta = Some(meta);
    }
    result
}

/// A tool's error is for the model, which can do something about it.
fn failure(error: &BackendError) -> CallToolResult {
    let BackendError { kind, message, hint } = error;
    let text = match hint.is_empty() {
        true => message.clone(),
        false => format!("{message}\n{hint}"),
    };
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    let described = json!({ "error": { "kind": kind, "message": message, "hint": hint } });
    result.structured_content = Some(described);
    result
}

/// Says again and again that a call is still going on; how far it is nobody knows.
async fn report_progress(
    session: &Session,
    context: &Context,
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
            tracing::debug!(%error, "the progress of a call was not reported");
        }
    }
}
