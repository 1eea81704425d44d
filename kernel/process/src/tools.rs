//! Conversion of tools and results from the protocol's types to the kernel's.

use std::sync::Arc;

use rmcp::model::{
    CallToolResult, ContentBlock, ErrorCode, ErrorData, MetaObject, ResourceContents, Tool,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use skillhost_payload::{
    ApprovalPolicy, CallEffect, CallError, ErrorKind, ToolAudience, ToolOutput, ToolSpec,
};
use skillhost_sandbox::to_printable;

use crate::error::call_error;
use crate::wire::OVERSIZED_CODE;

/// The key of a tool's approval policy in its `_meta`.
const NEEDS_APPROVAL: &str = "skillhost/needs_approval";

/// The key of a tool's support of background tasks in its `_meta`.
const TASK: &str = "skillhost/task";

/// The key of a tool's capabilities in its `_meta`.
const NEEDS: &str = "skillhost/needs";

/// Converts a tool to its specification in the kernel.
///
/// # Errors
/// [`ErrorKind::Protocol`] for an unknown approval policy.
pub(crate) fn to_tool_spec(tool: Tool) -> Result<ToolSpec, CallError> {
    let hints = tool.annotations.unwrap_or_default();
    let read_only = hints.read_only_hint.unwrap_or(false);
    let meta = tool.meta.as_ref();
    let permitted = "use never, unless_granted or always";
    let needs_approval = match parse_meta(&tool.name, meta, NEEDS_APPROVAL, permitted)? {
        Some(policy) => policy,
        // A tool without effects needs no approval; any other one is assumed to have effects.
        None if read_only => ApprovalPolicy::Never,
        None => ApprovalPolicy::UnlessGranted,
    };
    let task = parse_meta(&tool.name, meta, TASK, "use never, may or must")?.unwrap_or_default();
    let permitted = "use a list of capabilities, such as file:read";
    let needs = parse_meta(&tool.name, meta, NEEDS, permitted)?.unwrap_or_default();
    let schema = |schema: Arc<_>| Value::Object(Arc::unwrap_or_clone(schema));
    Ok(ToolSpec {
        name: tool.name.into_owned(),
        description: tool.description.unwrap_or_default().into_owned(),
        input_schema: schema(tool.input_schema),
        output_schema: tool.output_schema.map(schema),
        read_only,
        destructive: hints.destructive_hint.unwrap_or(false),
        needs_approval,
        // The protocol has no audience, so the tools of a process are for agents.
        audience: ToolAudience::Agent,
        changes_skills: false,
        // A tool with `readOnlyHint` needs no declaration of its own.
        effect: (!read_only && hints.idempotent_hint == Some(true)).then_some(CallEffect::Keyed),
        task,
        needs,
        skill_use: None,
    })
}

/// Returns a value of a tool's `_meta`, if it has the key.
///
/// # Errors
/// [`ErrorKind::Protocol`] for an unknown word.
fn parse_meta<T: DeserializeOwned>(
    tool: &str,
    meta: Option<&MetaObject>,
    key: &str,
    permitted: &str,
) -> Result<Option<T>, CallError> {
    let Some(value) = meta.and_then(|meta| meta.get(key)) else { return Ok(None) };
    serde_json::from_value(value.clone()).map(Some).map_err(|_| CallError {
        kind: ErrorKind::Protocol,
        message: format!(
            "{key} of tool `{}` is not valid: {}",
            to_printable(tool, 64),
            to_printable(&value.to_string(), 64)
        ),
        hint: permitted.to_owned(),
    })
}

/// Converts the result of a tool call to text for the model and a structured value.
///
/// # Errors
/// [`ErrorKind::Protocol`] for a structured value that cannot be serialized.
pub(crate) fn to_tool_output(result: CallToolResult) -> Result<ToolOutput, CallError> {
    let structured = match result.structured_content.as_ref().map(serde_json::value::to_raw_value) {
        Some(Ok(value)) => Some(value),
        Some(Err(e)) => {
            let message = format!("structured result is not valid: {e}");
            return Err(call_error(ErrorKind::Protocol, message));
        }
        None => None,
    };
    let parts: Vec<_> = result.content.into_iter().map(to_text).collect();
    let text = match (&structured, parts.is_empty()) {
        // Models read only the text, so a result without text shows its structured value.
        (Some(value), true) => value.get().to_owned(),
        _ => parts.join("\n"),
    };
    let is_error = result.is_error.unwrap_or(false);
    Ok(ToolOutput { text, structured, is_error, ..ToolOutput::default() })
}

/// Returns the text of a part of a result, or a placeholder for a part that is not text.
fn to_text(part: ContentBlock) -> String {
    match part {
        ContentBlock::Text(text) => text.text,
        ContentBlock::Image(image) => format!("[image omitted: {}]", image.mime_type),
        ContentBlock::Audio(audio) => format!("[audio omitted: {}]", audio.mime_type),
        ContentBlock::Resource(resource) => match resource.resource {
            ResourceContents::TextResourceContents { text, .. } => text,
            ResourceContents::BlobResourceContents { uri, .. } => {
                format!("[file omitted: {uri}]")
            }
            _ => "[unknown content omitted]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => format!("[{}]({})", link.name, link.uri),
        _ => "[unknown content omitted]".to_owned(),
    }
}

/// Converts a protocol error to a call error.
pub(crate) fn to_call_error(error: &ErrorData) -> CallError {
    let kind = match error.code {
        ErrorCode::INVALID_PARAMS => ErrorKind::InvalidArgument,
        ErrorCode::METHOD_NOT_FOUND => ErrorKind::NotFound,
        // This code is set by the transport of this crate, not by the process.
        ErrorCode(OVERSIZED_CODE) => {
            return CallError {
                hint: "request less data at once".to_owned(),
                ..call_error(ErrorKind::TooLarge, error.message.to_string())
            };
        }
        _ => ErrorKind::Failed,
    };
    call_error(kind, error.message.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skillhost_payload::TaskSupport;

    use super::*;

    fn read(more: &Value) -> Result<ToolSpec, CallError> {
        let mut tool = json!({"name": "t", "inputSchema": {"type": "object"}});
        let more = more.as_object().cloned().unwrap_or_default();
        tool.as_object_mut().unwrap().extend(more);
        to_tool_spec(serde_json::from_value(tool).unwrap())
    }

    #[test]
    fn approval_policy_has_safe_default() {
        let approval = |more| read(&more).unwrap().needs_approval;
        assert_eq!(approval(json!({})), ApprovalPolicy::UnlessGranted);
        let read_only = json!({"readOnlyHint": true});
        assert_eq!(approval(json!({"annotations": read_only})), ApprovalPolicy::Never);
        let meta = |word: &str| json!({NEEDS_APPROVAL: word});
        assert_eq!(
            approval(json!({"annotations": read_only, "_meta": meta("always")})),
            ApprovalPolicy::Always
        );
        assert_eq!(approval(json!({"_meta": meta("never")})), ApprovalPolicy::Never);
        let task = |word: &str| read(&json!({"_meta": {TASK: word}})).map(|spec| spec.task);
        assert_eq!(task("must").unwrap(), TaskSupport::Must);
        assert_eq!(task("maybe").unwrap_err().hint, "use never, may or must");
        let needs = |value: Value| read(&json!({"_meta": {NEEDS: value}})).map(|spec| spec.needs);
        assert_eq!(needs(json!(["file:read"])).unwrap(), ["file:read"]);
        assert_eq!(needs(json!("file:read")).unwrap_err().kind, ErrorKind::Protocol);
        let error = read(&json!({"_meta": meta("sometimes")})).unwrap_err();
        let message = "skillhost/needs_approval of tool `t` is not valid: \"sometimes\"";
        assert_eq!(error.message, message);
        let hints = json!({"annotations": {"destructiveHint": true}, "description": "D"});
        let expected = ToolSpec {
            name: "t".to_owned(),
            description: "D".to_owned(),
            input_schema: json!({"type": "object"}),
            output_schema: None,
            read_only: false,
            destructive: true,
            needs_approval: ApprovalPolicy::UnlessGranted,
            audience: ToolAudience::Agent,
            changes_skills: false,
            effect: None,
            task: TaskSupport::Never,
            needs: Vec::new(),
            skill_use: None,
        };
        assert_eq!(read(&hints).unwrap(), expected);
    }

    #[test]
    fn hints_declare_call_effect() {
        let effect = |hints: Value| read(&json!({"annotations": hints})).unwrap().call_effect();
        assert_eq!(effect(json!({})), CallEffect::Once);
        assert_eq!(effect(json!({"idempotentHint": false})), CallEffect::Once);
        assert_eq!(effect(json!({"idempotentHint": true})), CallEffect::Keyed);
        assert_eq!(effect(json!({"readOnlyHint": true})), CallEffect::Read);
        assert_eq!(effect(json!({"readOnlyHint": true, "idempotentHint": true})), CallEffect::Read);
    }

    #[test]
    fn non_text_content_is_named() {
        let result =
            |value| to_tool_output(serde_json::from_value::<CallToolResult>(value).unwrap());
        let mixed = result(json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "image", "data": "eA==", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "two"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "eA=="}},
            {"type": "resource_link", "uri": "file:///c", "name": "c"},
        ], "isError": true}))
        .unwrap();
        let lines = [
            "one",
            "[image omitted: image/png]",
            "two",
            "[file omitted: file:///b]",
            "[c](file:///c)",
        ];
        assert_eq!((mixed.text, mixed.is_error), (lines.join("\n"), true));
        let structured = result(json!({"content": [], "structuredContent": {"n": 1}})).unwrap();
        assert_eq!(structured.text, "{\"n\":1}");
        assert_eq!(structured.structured.unwrap().get(), "{\"n\":1}");
        assert!(!structured.is_error);
    }
}
