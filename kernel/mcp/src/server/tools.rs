//! Tools: their list and their calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    ListToolsResult, MetaObject, PaginatedRequestParams, ProgressNotificationParam, ProgressToken,
    Tool, ToolAnnotations,
};
use serde_json::{Map, Value, json};
use skillhost_payload::{ToolOutput, ToolSpec};

use super::asked::CallHash;
use super::page::paginate;
use super::review::ElicitationOutcome;
use super::{
    McpRequestContext, McpServer, ServerSession, ServerShared, review, to_protocol_error,
    unknown_parameter_error,
};
use crate::backend::{BackendError, ChangeCounter, ClientSession};

/// The key in the `_meta` of a result for a value that is not structured content.
const STRUCTURED: &str = "skillhost/structured";

/// A cache of the exported tools by name, with the backend state to which it belongs.
#[derive(Default)]
pub(super) struct KnownTools(Mutex<Option<(ChangeCounter, ToolsByName)>>);

type ToolsByName = Arc<BTreeMap<String, Tool>>;

impl ServerShared {
    /// Returns the exported tools, from the cache until the backend changes.
    async fn known_tools(
        &self,
        client: &ClientSession,
        now: ChangeCounter,
    ) -> Result<ToolsByName, BackendError> {
        let KnownTools(cache) = &self.known_tools;
        let known = cache.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, tools)) = known.filter(|(of, _)| *of == now) {
            return Ok(tools);
        }
        let specs = self.backend.tools(client).await?;
        let tools = specs.iter().map(|spec| (spec.name.clone(), to_tool(spec)));
        let tools: ToolsByName = Arc::new(tools.collect());
        let cache = &mut *cache.lock().unwrap_or_else(PoisonError::into_inner);
        *cache = Some((now, Arc::clone(&tools)));
        Ok(tools)
    }

    /// Returns an exported tool as of the last refresh, without waiting for the backend.
    pub(super) fn known_tool(&self, name: &str) -> Option<Tool> {
        let KnownTools(cache) = &self.known_tools;
        let cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.as_ref().and_then(|(_, tools)| tools.get(name).cloned())
    }
}

impl McpServer {
    /// Refreshes the cached tools if they may have changed.
    ///
    /// [`rmcp::ServerHandler::get_tool`] is synchronous and reads only the cache.
    pub(crate) async fn refresh_tools(&self) {
        // Read before the tools: a change during the listing then invalidates it next time.
        let now = *self.shared.backend.changes().borrow();
        let client = ClientSession { id: "mcp-http".to_owned(), client: "http".to_owned() };
        if let Err(error) = self.shared.known_tools(&client, now).await {
            tracing::warn!(%error, "exported tools not available");
        }
    }
}

impl ServerSession {
    /// Returns `true` if a tool declares an output schema.
    async fn declares(&self, client: &ClientSession, name: &str) -> Result<bool, BackendError> {
        // Read before the tools: a change during the listing then invalidates it next time.
        let now = *self.changes.borrow();
        let tools = self.shared.known_tools(client, now).await?;
        Ok(tools.get(name).is_some_and(|tool| tool.output_schema.is_some()))
    }
}

/// Returns the declared output schema of a tool, if its type is `object` as the protocol requires.
fn declared_output_schema(spec: &ToolSpec) -> Option<&Map<String, Value>> {
    let schema = spec.output_schema.as_ref()?.as_object()?;
    (schema.get("type")? == "object").then_some(schema)
}

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

fn to_tool(spec: &ToolSpec) -> Tool {
    let object = |value: &Value| Arc::new(value.as_object().cloned().unwrap_or_default());
    let annotations = ToolAnnotations::new()
        .read_only(spec.read_only)
        .destructive(spec.destructive)
        // Tool specifications have no such field, and no tool of the kernel reaches the network.
        .open_world(false);
    let tool = Tool::new(spec.name.clone(), spec.description.clone(), object(&spec.input_schema))
        .with_annotations(annotations);
    match declared_output_schema(spec) {
        Some(schema) => tool.with_raw_output_schema(Arc::new(schema.clone())),
        None => tool,
    }
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
            let output = ToolOutput { text: "Text.".to_owned(), structured, is_error, skill: None };
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

    #[test]
    fn output_schema_must_be_object() {
        let mut spec: ToolSpec = serde_json::from_value(json!({
            "name": "a", "description": "", "input_schema": {},
        }))
        .unwrap();
        for (schema, is_declared) in [
            (None, false),
            (Some(json!({ "type": "object" })), true),
            (Some(json!({ "type": "array" })), false),
            (Some(json!(true)), false),
        ] {
            spec.output_schema = schema;
            assert_eq!(declared_output_schema(&spec).is_some(), is_declared, "{spec:?}");
            assert_eq!(to_tool(&spec).output_schema.is_some(), is_declared, "{spec:?}");
        }
    }
}
