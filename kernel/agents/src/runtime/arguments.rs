//! The validation of arguments written by a model, with an error text that the model can act on.

use serde_json::Value;
use skillhost_conversation::ModelTool;
use skillhost_core::ArgumentCheck;
use skillhost_core::mistakes::{CHOICES, MAX_MISTAKES, describe_mistake, truncate};

/// The number of characters of the schema in a message.
const SCHEMA: usize = 1_500;
/// The error text for a model whose arguments are not valid.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ToolArgumentsError(pub(crate) String);

/// Validates a model's arguments for a tool and returns the text of one JSON object. Empty text
/// is read as an empty object.
///
/// # Errors
/// [`ToolArgumentsError`], written for the model.
pub(crate) fn validate_arguments(
    tool: &ModelTool,
    cached: Option<&ArgumentCheck>,
    written: &str,
) -> Result<String, ToolArgumentsError> {
    // Several models send no text at all for a tool without parameters.
    let text = if written.trim().is_empty() { "{}" } else { written };
    let mistakes = match serde_json::from_str::<Value>(text) {
        Ok(value @ Value::Object(_)) => match cached.filter(|it| it.is_of(&tool.input_schema)) {
            Some(cached) => cached.mistakes(&value),
            // The cached schema differs: a provider may offer a caller its own version of a tool.
            None => match jsonschema::validator_for(&tool.input_schema) {
                Ok(validator) => {
                    let errors = validator.iter_errors(&value);
                    errors.map(|error| describe_mistake(&error, &tool.input_schema)).collect()
                }
                // An unusable schema is not the model's mistake; the tool checks its arguments
                // itself.
                Err(_) => Vec::new(),
            },
        },
        Ok(_) => vec!["not a JSON object".to_owned()],
        Err(error) => vec![format!("not valid JSON: {error}")],
    };
    if mistakes.is_empty() {
        return Ok(text.to_owned());
    }
    let mut lines = vec![format!("`{}` was not called: its arguments are not valid.", tool.name)];
    lines.extend(mistakes.iter().take(MAX_MISTAKES).map(|mistake| format!("- {mistake}")));
    if mistakes.len() > MAX_MISTAKES {
        lines.push(format!("- and {} more", mistakes.len() - MAX_MISTAKES));
    }
    lines.push(format!("Its schema: {}", compact_schema(&tool.input_schema)));
    lines.push("Call it again with corrected arguments.".to_owned());
    Err(ToolArgumentsError(lines.join("\n")))
}

/// Formats a schema without descriptions, truncated to a useful length.
fn compact_schema(schema: &Value) -> String {
    truncate(&remove_descriptions(schema).to_string(), SCHEMA)
}

fn remove_descriptions(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            // A property may be called `description`: its value is then a schema and not a text.
            let is_description = |key: &str, value: &Value| {
                ["description", "title", "$schema", "examples"].contains(&key) && !value.is_object()
            };
            let kept = fields.iter().filter(|(key, value)| !is_description(key, value));
            Value::Object(
                kept.map(|(key, value)| match value.as_array() {
                    Some(options) if key == "enum" && options.len() > CHOICES => {
                        let mut listed = options[..CHOICES].to_vec();
                        listed.push(Value::from("…"));
                        (key.clone(), Value::Array(listed))
                    }
                    _ => (key.clone(), remove_descriptions(value)),
                })
                .collect(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(remove_descriptions).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool() -> ModelTool {
        ModelTool {
            name: "read".into(),
            description: "Reads.".into(),
            input_schema: json!({
                "additionalProperties": false,
                "description": "What to read.",
                "properties": {
                    "description": {"type": "string"},
                    "limit": {"minimum": 1, "type": "integer"},
                    "skill_id": {"description": "Which.", "enum": ["code-review", "greet"],
                                 "type": "string"}
                },
                "required": ["skill_id"],
                "type": "object"
            }),
        }
    }

    const SCHEMA_LINE: &str = "Its schema: {\"additionalProperties\":false,\"properties\":{\
        \"description\":{\"type\":\"string\"},\"limit\":{\"minimum\":1,\"type\":\"integer\"},\
        \"skill_id\":{\"enum\":[\"code-review\",\"greet\"],\"type\":\"string\"}},\
        \"required\":[\"skill_id\"],\"type\":\"object\"}\nCall it again with corrected arguments.";

    #[track_caller]
    fn wrong(written: &str, mistakes: &str) {
        let expected = format!(
            "`read` was not called: its arguments are not valid.\n{mistakes}\n{SCHEMA_LINE}"
        );
        assert_eq!(validate_arguments(&tool(), None, written), Err(ToolArgumentsError(expected)));
    }

    #[test]
    fn mistakes_name_path_and_suggestion() {
        assert_eq!(
            validate_arguments(&tool(), None, " {\"skill_id\": \"greet\"}"),
            Ok(" {\"skill_id\": \"greet\"}".into())
        );
        wrong("", "- field `skill_id` is missing");
        wrong("[1]", "- not a JSON object");
        wrong("{\"skill_id\": ", "- not valid JSON: EOF while parsing a value at line 1 column 13");
        wrong(
            r#"{"skill_id": "code-reveiw"}"#,
            "- `/skill_id`: \"code-reveiw\" is not one of \"code-review\", \"greet\"; did you mean \
             code-review?",
        );
        wrong(
            r#"{"skil_id": "greet"}"#,
            "- unknown field `skil_id`; did you mean skill_id?\n- field `skill_id` is missing",
        );
        wrong(
            r#"{"skill_id": "greet", "limit": 0}"#,
            "- `/limit`: 0 is less than the minimum of 1",
        );
    }

    #[test]
    fn unusable_schema_allows_call() {
        let tool = ModelTool { input_schema: json!({"type": 7}), ..tool() };
        assert_eq!(validate_arguments(&tool, None, "{}"), Ok("{}".into()));
    }

    #[test]
    fn long_enumeration_is_truncated() {
        let many: Vec<_> = (0..500).map(|n| format!("skill-{n}")).collect();
        let schema = json!({"properties": {"id": {"enum": many}}});
        let tool = ModelTool { input_schema: schema, ..tool() };
        let ToolArgumentsError(text) =
            validate_arguments(&tool, None, r#"{"id": "skill-500"}"#).unwrap_err();
        assert!(text.contains("\"skill-19\" and 480 more; did you mean skill-50, "), "{text}");
        assert!(text.len() < 1_500, "{text}");
    }
}
