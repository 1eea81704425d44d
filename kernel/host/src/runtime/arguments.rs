//! The validation of arguments written by a model, with an error text that the model can act on.

use jsonschema::error::ValidationErrorKind;
use serde_json::Value;
use skillhost_conversation::ModelTool;
use skillhost_home::suggest_similar;

use super::argument_check::ArgumentCheck;

/// The number of mistakes in one message.
pub(super) const MAX_MISTAKES: usize = 8;
/// The number of characters of the schema in a message.
const SCHEMA: usize = 1_500;
/// The number of enumeration values in a message.
const CHOICES: usize = 20;

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

/// Describes one mistake: its path, the reason, and the nearest valid name.
pub(super) fn describe_mistake(error: &jsonschema::ValidationError<'_>, schema: &Value) -> String {
    let path = error.instance_path().as_str();
    let at = if path.is_empty() { String::new() } else { format!("`{}`: ", truncate(path, 100)) };
    let mistake = match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let properties = schema["properties"].as_object();
            let known: Vec<_> = properties.into_iter().flatten().map(|(name, _)| &**name).collect();
            let unknown = |name: &String| {
                let name = truncate(name, 100);
                format!("unknown field `{name}`{}", did_you_mean(&name, known.iter().copied()))
            };
            unexpected.iter().map(unknown).collect::<Vec<_>>().join("; ")
        }
        ValidationErrorKind::Required { property } => {
            format!("field `{}` is missing", property.as_str().unwrap_or_default())
        }
        ValidationErrorKind::Enum { options } => {
            let written = error.instance().as_str().unwrap_or_default();
            let options: Vec<_> = options.as_array().into_iter().flatten().collect();
            let listed: Vec<_> = options.iter().take(CHOICES).map(ToString::to_string).collect();
            let more = match options.len().saturating_sub(CHOICES) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let meant = did_you_mean(written, options.iter().filter_map(|option| option.as_str()));
            let value = truncate(&error.instance().to_string(), 100);
            format!("{value} is not one of {}{more}{meant}", listed.join(", "))
        }
        _ => truncate(&error.to_string(), 300),
    };
    format!("{at}{mistake}")
}

/// Returns the nearest known names as a question; empty without a similar one.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match suggest_similar(name, known).as_slice() {
        [] => String::new(),
        names => format!("; did you mean {}?", names.join(", ")),
    }
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

/// Returns at most `limit` characters, with a mark where text is cut.
pub(crate) fn truncate(text: &str, limit: usize) -> String {
    // Counts characters: a byte limit could split one.
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
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
