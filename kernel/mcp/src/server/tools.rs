//! Tools: what there is to call, and calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    ListToolsResult, MetaObject, PaginatedRequestParams, ProgressNotificationParam, ProgressToken,
    Tool, ToolAnnotations,
};
use serde_json::{Map, Value, json};
use skillhost_contract::payload::{ToolOutput, ToolSpec};

use super::asked::CallHash;
use super::page::paginate;
use super::review::ElicitationOutcome;
use super::{
    McpRequestContext, McpServer, ServerSession, ServerShared, review, to_protocol_error,
    unknown_parameter_error,
};
use crate::backend::{BackendError, ChangeCounter, ClientSession};

/// Where in the `_meta` of a result programs find a value that is not structured content.
const STRUCTURED: &str = "skillhost/structured";

/// The exported tools by name, and of which state of the backend that is true.
#[derive(Default)]
pub(super) struct KnownTools(Mutex<Option<(ChangeCounter, ToolsByName)>>);

type ToolsByName = Arc<BTreeMap<String, Tool>>;

impl ServerShared {
    /// Returns the exported tools, of which only a change of the backend makes others.
    async fn known_tools(
        &self,
        client: &ClientSession,
        now: ChangeCounter,
    ) -> Result<ToolsByName, BackendError> {
        let KnownTools(kept) = &self.known_tools;
        let known = kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, tools)) = known.filter(|(of, _)| *of == now) {
            return Ok(tools);
        }
        let specs = self.backend.tools(client).await?;
        let tools = specs.iter().map(|spec| (spec.name.clone(), tool(spec)));
        let tools: ToolsByName = Arc::new(tools.collect());
        let kept = &mut *kept.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some((now, Arc::clone(&tools)));
        Ok(tools)
    }

    /// Returns an exported tool as it was when the tools were looked at last.
    pub(super) fn known_tool(&self, name: &str) -> Option<Tool> {
        let KnownTools(kept) = &self.known_tools;
        let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().and_then(|(_, tools)| tools.get(name).cloned())
    }
}

impl McpServer {
    /// Looks at the exported tools if they may have changed; [`CliContext::get_tool`] cannot wait.
    pub(crate) async fn refresh_tools(&self) {
        // Taken first: what changes while the tools are listed shows the next time.
        let now = *self.shared.backend.changes().borrow();
        let client = ClientSession { id: "mcp-http".to_owned(), client: "http".to_owned() };
        if let Err(error) = self.shared.known_tools(&client, now).await {
            tracing::warn!(%error, "the exported tools are not known");
        }
    }
}

impl ServerSession {
    /// Tells whether a tool has declared what its value looks like.
    async fn declares(&self, client: &ClientSession, name: &str) -> Result<bool, BackendError> {
        // Taken first: what changes while the tools are listed shows the next time.
        let now = *self.changes.borrow();
        let tools = self.shared.known_tools(client, now).await?;
        Ok(tools.get(name).is_some_and(|tool| tool.output_schema.is_some()))
    }
}

/// What a tool says that its value looks like; the protocol wants it to be an object.
fn declared_output_schema(spec: &ToolSpec) -> Option<&Map<String, Value>> {
    let schema = spec.output_schema.as_ref()?.as_object()?;
    (schema.get("type")? == "object").then_some(schema)
}

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
    let mut result = ListToolsResult::with_all_items(specs.iter().map(tool).collect());
    result.next_cursor = next;
    let (ttl, scope) = session.cache_control();
    Ok(result.with_ttl_ms(ttl).with_cache_scope(scope))
}

fn tool(spec: &ToolSpec) -> Tool {
    let object = |value: &Value| Arc::new(value.as_object().cloned().unwrap_or_default());
    let annotations = ToolAnnotations::new()
        .read_only(spec.read_only)
        .destructive(spec.destructive)
        // What a tool reaches is its owner's business; none of ours says more than this.
        .open_world(false);
    let tool = Tool::new(spec.name.clone(), spec.description.clone(), object(&spec.input_schema))
        .with_annotations(annotations);
    match declared_output_schema(spec) {
        Some(schema) => tool.with_raw_output_schema(Arc::new(schema.clone())),
        None => tool,
    }
}

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
        // What was called has been done; only the answer about it was missing.
        let answers = request.input_responses;
        let output = review::handle_answer(session, &client, hash, handle, answers).await?;
        return Ok(result(output, declared).into());
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
                ElicitationOutcome::Done(output) => Ok(result(output, declared).into()),
                ElicitationOutcome::Asks(asks) => Ok(asks.into()),
            }
        }
        Err(error) => Ok(failure(&error).into()),
    }
}

/// Clients that get structured content show it to the model instead of the text. So it is there only
/// where the tool has declared it, and then says as much as the text.
fn result(output: ToolOutput, declared: bool) -> CallToolResult {
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

/// A value for programs that no model is shown.
fn meta_value(value: Value) -> MetaObject {
    let mut meta = MetaObject::new();
    meta.insert(STRUCTURED.to_owned(), value);
    meta
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
    // Clients hold structured content against the schema of a tool that has one.
    result.meta = Some(meta_value(described));
    result
}

/// Says again and again that a call is still going on; how far it is nobody knows.
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
            tracing::debug!(%error, "the progress of a call was not reported");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_declared_and_did_not_fail_is_structured_content() {
        let told = |value: &Value, is_error: bool, declared: bool| {
            let structured = serde_json::value::to_raw_value(value).ok();
            let output = ToolOutput { text: "Told.".to_owned(), structured, is_error, skill: None };
            let told = serde_json::to_value(result(output, declared)).unwrap();
            assert_eq!(told["content"][0]["text"], "Told.");
            assert_eq!(told["isError"], is_error);
            (told["structuredContent"].clone(), told["_meta"][STRUCTURED].clone())
        };
        let object = json!({ "a": 1 });
        let nothing = Value::Null;
        assert_eq!(told(&object, false, true), (object.clone(), nothing.clone()));
        for (value, is_error, declared) in
            [(&object, false, false), (&object, true, true), (&json!([1]), false, true)]
        {
            assert_eq!(told(value, is_error, declared), (nothing.clone(), value.clone()));
        }
    }

    #[test]
    fn a_schema_that_is_not_one_of_objects_is_not_declared() {
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
            assert_eq!(tool(&spec).output_schema.is_some(), is_declared, "{spec:?}");
        }
    }
}
