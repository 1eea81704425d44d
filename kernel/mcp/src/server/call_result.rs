//! The results of tool calls.

use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::{Value, json};
use skillhost_payload::ToolOutput;

use crate::backend::BackendError;

/// The key in the `_meta` of a result for a value that is not structured content.
const STRUCTURED: &str = "skillhost/structured";

/// Converts a tool output to a call result.
///
/// Clients show structured content to the model instead of the text. Therefore it is included only
/// if the tool declares it; it then has the same information as the text.
pub(super) fn to_call_result(output: ToolOutput, declared: bool) -> CallToolResult {
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
pub(super) fn to_error_result(error: &BackendError) -> CallToolResult {
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
