//! Tools and their results: the protocol's shapes become the kernel's.

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, ErrorCode, ErrorData, ResourceContents, Tool};
use serde_json::Value;
use skillhost_kernel::{ApprovalPolicy, CallError, ErrorKind, ToolAudience, ToolOutput, ToolSpec};

use crate::wire::OVERSIZED;
use crate::{error, printable};

/// The key in a tool's `_meta` that says when it asks before it acts.
const NEEDS_APPROVAL: &str = "skillhost/needs_approval";

/// Takes a tool over as the kernel offers it.
///
/// # Errors
/// Where the tool says something about itself that has no meaning.
pub(crate) fn to_tool_spec(tool: Tool) -> Result<ToolSpec, CallError> {
    let hints = tool.annotations.unwrap_or_default();
    let read_only = hints.read_only_hint.unwrap_or(false);
    let needs_approval = match tool.meta.as_ref().and_then(|meta| meta.get(NEEDS_APPROVAL)) {
        Some(said) => serde_json::from_value(said.clone()).map_err(|_| CallError {
            kind: ErrorKind::Protocol,
            message: format!(
                "the tool `{}` has {NEEDS_APPROVAL}: {}",
                printable(&tool.name, 64),
                printable(&said.to_string(), 64)
            ),
            hint: "it is one of never, unless_granted and always".to_owned(),
        })?,
        None if read_only => ApprovalPolicy::Never,
        None => ApprovalPolicy::UnlessGranted,
    };
    let schema = |schema: Arc<_>| Value::Object(Arc::unwrap_or_clone(schema));
    Ok(ToolSpec {
        name: tool.name.into_owned(),
        description: tool.description.unwrap_or_default().into_owned(),
        input_schema: schema(tool.input_schema),
        output_schema: tool.output_schema.map(schema),
        read_only,
        destructive: hints.destructive_hint.unwrap_or(false),
        needs_approval,
        audience: ToolAudience::Agent,
    })
}

/// Takes the result of a call over: text for the model, the structured part beside it.
///
/// # Errors
/// Where the structured part cannot be passed on.
pub(crate) fn to_tool_output(result: CallToolResult) -> Result<ToolOutput, CallError> {
    let structured = match result.structured_content.as_ref().map(serde_json::value::to_raw_value) {
        Some(Ok(value)) => Some(value),
        Some(Err(e)) => return Err(error(ErrorKind::Protocol, format!("its result: {e}"))),
        None => None,
    };
    let parts: Vec<_> = result.content.into_iter().map(text).collect();
    let text = match (&structured, parts.is_empty()) {
        (Some(value), true) => value.get().to_owned(),
        _ => parts.join("\n"),
    };
    let is_error = result.is_error.unwrap_or(false);
    Ok(ToolOutput { text, structured, is_error, skill: None })
}

/// What a model can read of a part of a result; of the rest, what it is.
fn text(part: ContentBlock) -> String {
    match part {
        ContentBlock::Text(text) => text.text,
        ContentBlock::Image(image) => format!("[an image, {}, is left out]", image.mime_type),
        ContentBlock::Audio(audio) => format!("[a sound, {}, is left out]", audio.mime_type),
        ContentBlock::Resource(resource) => match resource.resource {
            ResourceContents::TextResourceContents { text, .. } => text,
            ResourceContents::BlobResourceContents { uri, .. } => {
                format!("[a file, {uri}, is left out]")
            }
            _ => "[something this kernel does not know is left out]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => format!("[{}]({})", link.name, link.uri),
        _ => "[something this kernel does not know is left out]".to_owned(),
    }
}

/// Takes an error of the protocol over.
pub(crate) fn to_call_error(refused: &ErrorData) -> CallError {
    let kind = match refused.code {
        ErrorCode::INVALID_PARAMS => ErrorKind::InvalidArgument,
        ErrorCode::METHOD_NOT_FOUND => ErrorKind::NotFound,
        ErrorCode(OVERSIZED) => {
            return CallError {
                hint: "ask for less at once".to_owned(),
                ..error(ErrorKind::TooLarge, refused.message.to_string())
            };
        }
        _ => ErrorKind::Failed,
    };
    error(kind, refused.message.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(more: &Value) -> Result<ToolSpec, CallError> {
        let mut tool = json!({"name": "t", "inputSchema": {"type": "object"}});
        let more = more.as_object().cloned().unwrap_or_default();
        tool.as_object_mut().unwrap().extend(more);
        to_tool_spec(serde_json::from_value(tool).unwrap())
    }

    #[test]
    fn a_tool_asks_first_unless_it_only_reads_or_says_otherwise() {
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
        let error = read(&json!({"_meta": meta("sometimes")})).unwrap_err();
        assert_eq!(error.message, "the tool `t` has skillhost/needs_approval: \"sometimes\"");
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
        };
        assert_eq!(read(&hints).unwrap(), expected);
    }

    #[test]
    fn a_result_is_text_and_names_what_is_none() {
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
            "[an image, image/png, is left out]",
            "two",
            "[a file, file:///b, is left out]",
            "[c](file:///c)",
        ];
        assert_eq!((mixed.text, mixed.is_error), (lines.join("\n"), true));
        let structured = result(json!({"content": [], "structuredContent": {"n": 1}})).unwrap();
        assert_eq!(structured.text, "{\"n\":1}");
        assert_eq!(structured.structured.unwrap().get(), "{\"n\":1}");
        assert!(!structured.is_error);
    }
}
