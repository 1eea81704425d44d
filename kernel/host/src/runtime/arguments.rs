//! What a model wrote as arguments: checked against the tool's schema, and sent back with what is
//! wrong with it.

use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

use super::argument_check::ArgumentCheck;
use crate::error::suggest_similar;
use crate::model::ModelTool;

/// Mistakes that are named in one message.
pub(super) const MAX_MISTAKES: usize = 8;
/// Characters of the schema that are repeated.
const SCHEMA: usize = 1_500;
/// Values of an enumeration that are repeated.
const CHOICES: usize = 20;

/// What a model is told about arguments that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ToolArgumentsError(pub(crate) String);

/// Reads arguments for a tool; the answer is the text of one JSON object. Nothing at all stands for
/// an empty one.
///
/// # Errors
/// [`ToolArgumentsError`], for the model.
pub(crate) fn validate_arguments(
    tool: &ModelTool,
    cached: Option<&ArgumentCheck>,
    written: &str,
) -> Result<String, ToolArgumentsError> {
    let text = if written.trim().is_empty() { "{}" } else { written };
    let mistakes = match serde_json::from_str::<Value>(text) {
        Ok(value @ Value::Object(_)) => match cached.filter(|it| it.is_of(&tool.input_schema)) {
            Some(cached) => cached.mistakes(&value),
            // What a tool offers may depend on who asks.
            None => match jsonschema::validator_for(&tool.input_schema) {
                Ok(validator) => {
                    let errors = validator.iter_errors(&value);
                    errors.map(|error| describe(&error, &tool.input_schema)).collect()
                }
                // A schema that cannot be used is not the model's mistake; the tool checks for
                // itself.
                Err(_) => Vec::new(),
            },
        },
        Ok(_) => vec!["they are JSON, but not an object".to_owned()],
        Err(error) => vec![format!("they are not JSON: {error}")],
    };
    if mistakes.is_empty() {
        return Ok(text.to_owned());
    }
    let mut lines = vec![format!("`{}` was not called: its arguments are wrong.", tool.name)];
    lines.extend(mistakes.iter().take(MAX_MISTAKES).map(|mistake| format!("- {mistake}")));
    if mistakes.len() > MAX_MISTAKES {
        lines.push(format!("- and {} more", mistakes.len() - MAX_MISTAKES));
    }
    lines.push(format!("Its schema: {}", compact_schema(&tool.input_schema)));
    lines.push("Call it again with corrected arguments.".to_owned());
    Err(ToolArgumentsError(lines.join("\n")))
}

/// One mistake: where, what, and what was probably meant.
pub(super) fn describe(error: &jsonschema::ValidationError<'_>, schema: &Value) -> String {
    let place = error.instance_path().as_str();
    let at = if place.is_empty() { String::new() } else { format!("`{}`: ", truncate(place, 100)) };
    let what = match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let properties = schema["properties"].as_object();
            let known: Vec<_> = properties.into_iter().flatten().map(|(name, _)| &**name).collect();
            let unknown = |name: &String| {
                let name = truncate(name, 100);
                format!("there is no field `{name}`{}", did_you_mean(&name, known.iter().copied()))
            };
            unexpected.iter().map(unknown).collect::<Vec<_>>().join("; ")
        }
        ValidationErrorKind::Required { property } => {
            format!("the field `{}` is missing", property.as_str().unwrap_or_default())
        }
        ValidationErrorKind::Enum { options } => {
            let written = error.instance().as_str().unwrap_or_default();
            let options: Vec<_> = options.as_array().into_iter().flatten().collect();
            let shown: Vec<_> = options.iter().take(CHOICES).map(ToString::to_string).collect();
            let more = match options.len().saturating_sub(CHOICES) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let meant = did_you_mean(written, options.iter().filter_map(|option| option.as_str()));
            let value = truncate(&error.instance().to_string(), 100);
            format!("{value} is none of {}{more}{meant}", shown.join(", "))
        }
        _ => truncate(&error.to_string(), 300),
    };
    format!("{at}{what}")
}

/// The nearest of the known names, as a question.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match suggest_similar(name, known).as_slice() {
        [] => String::new(),
        names => format!("; did you mean {}?", names.join(", ")),
    }
}

/// A schema without its prose, and not longer than it helps.
fn compact_schema(schema: &Value) -> String {
    truncate(&without_prose(schema).to_string(), SCHEMA)
}

fn without_prose(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            // A property may be called `description`: then it is a schema, not a text.
            let prose = |key: &str, value: &Value| {
                ["description", "title", "$schema", "examples"].contains(&key) && !value.is_object()
            };
            let kept = fields.iter().filter(|(key, value)| !prose(key, value));
            Value::Object(
                kept.map(|(key, value)| match value.as_array() {
                    Some(options) if key == "enum" && options.len() > CHOICES => {
                        let mut shown = options[..CHOICES].to_vec();
                        shown.push(Value::from("…"));
                        (key.clone(), Value::Array(shown))
                    }
                    _ => (key.clone(), without_prose(value)),
                })
                .collect(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(without_prose).collect()),
        other => other.clone(),
    }
}

/// At most so many characters, with a mark where some are missing.
pub(crate) fn truncate(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
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
        let expected =
            format!("`read` was not called: its arguments are wrong.\n{mistakes}\n{SCHEMA_LINE}");
        assert_eq!(validate_arguments(&tool(), None, written), Err(ToolArgumentsError(expected)));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place_and_what_was_meant() {
        assert_eq!(
            validate_arguments(&tool(), None, " {\"skill_id\": \"greet\"}"),
            Ok(" {\"skill_id\": \"greet\"}".into())
        );
        wrong("", "- the field `skill_id` is missing");
        wrong("[1]", "- they are JSON, but not an object");
        wrong(
            "{\"skill_id\": ",
            "- they are not JSON: EOF while parsing a value at line 1 column 13",
        );
        wrong(
            r#"{"skill_id": "code-reveiw"}"#,
            "- `/skill_id`: \"code-reveiw\" is none of \"code-review\", \"greet\"; did you mean \
             code-review?",
        );
        wrong(
            r#"{"skil_id": "greet"}"#,
            "- there is no field `skil_id`; did you mean skill_id?\n- the field `skill_id` is missing",
        );
        wrong(
            r#"{"skill_id": "greet", "limit": 0}"#,
            "- `/limit`: 0 is less than the minimum of 1",
        );
    }

    #[test]
    fn a_schema_that_is_none_stops_no_call() {
        let tool = ModelTool { input_schema: json!({"type": 7}), ..tool() };
        assert_eq!(validate_arguments(&tool, None, "{}"), Ok("{}".into()));
    }

    #[test]
    fn long_things_are_repeated_in_part() {
        let many: Vec<_> = (0..500).map(|n| format!("skill-{n}")).collect();
        let schema = json!({"properties": {"id": {"enum": many}}});
        let tool = ModelTool { input_schema: schema, ..tool() };
        let ToolArgumentsError(text) =
            validate_arguments(&tool, None, r#"{"id": "skill-500"}"#).unwrap_err();
        assert!(text.contains("\"skill-19\" and 480 more; did you mean skill-50, "), "{text}");
        assert!(text.len() < 1_500, "{text}");
    }
}
