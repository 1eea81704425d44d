//! The check of a tool's arguments against its input schema, for every caller.

use std::fmt;
use std::sync::{Arc, OnceLock};

use jsonschema::Validator;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;
use skillhost_payload::{CallError, ErrorKind, OperatorCommand, ToolSpec};

use crate::mistakes::{MAX_MISTAKES, describe_mistake, truncate};

/// A validator for one tool's arguments, compiled at the first call and cached.
pub struct ArgumentCheck {
    spec: Arc<ToolSpec>,
    /// `None` for an unusable schema, such as one with references to other documents.
    validator: OnceLock<Option<Validator>>,
}

impl ArgumentCheck {
    /// Creates the check of a tool; its schema is compiled later.
    #[must_use]
    pub fn new(spec: Arc<ToolSpec>) -> Self {
        Self { spec, validator: OnceLock::new() }
    }

    /// Checks that the arguments are one JSON object that the tool's input schema allows.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] with every mistake and its path.
    pub fn check(&self, arguments: &str) -> Result<(), CallError> {
        let name = &self.spec.name;
        let invalid = |message: String, hint: String| {
            CallError::new(ErrorKind::InvalidArgument, message).with_hint(hint)
        };
        let example = || "pass one JSON object, such as {\"skill_id\": \"code-review\"}".to_owned();
        let value: Value = serde_json::from_str(arguments).map_err(|error| {
            invalid(format!("arguments are not valid JSON: {error}"), example())
        })?;
        if !value.is_object() {
            return Err(invalid("arguments are not a JSON object".to_owned(), example()));
        }
        let mistakes = self.mistakes(&value);
        if mistakes.is_empty() {
            return Ok(());
        }
        let more = match mistakes.len().saturating_sub(MAX_MISTAKES) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let listed = mistakes[..mistakes.len().min(MAX_MISTAKES)].join("; ");
        Err(invalid(
            format!("arguments of `{name}` are not valid: {listed}{more}"),
            format!("see the tool's input schema: {}", OperatorCommand::PrintToolSchemas),
        ))
    }

    /// Returns whether this check was made for a schema.
    #[must_use]
    pub fn is_of(&self, schema: &Value) -> bool {
        self.spec.input_schema == *schema
    }

    /// Returns the mistakes of arguments that are a JSON object.
    #[must_use]
    pub fn mistakes(&self, arguments: &Value) -> Vec<String> {
        let schema = &self.spec.input_schema;
        match self.validator.get_or_init(|| jsonschema::validator_for(schema).ok()) {
            Some(validator) => validator
                .iter_errors(arguments)
                .map(|error| describe_mistake(&error, schema))
                .collect(),
            // An unusable schema is not the caller's mistake; the tool checks its arguments itself.
            None => Vec::new(),
        }
    }
}

impl fmt::Debug for ArgumentCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArgumentCheck").field("tool", &self.spec.name).finish_non_exhaustive()
    }
}

/// Returns the reason why a schema is unusable for a tool, with its path in the schema.
pub(crate) fn schema_mistake(schema: &Value) -> Option<String> {
    // Models send an object only; a list of types may still contain `object`.
    if schema.get("type").is_some_and(|kind| kind.is_string() && kind != "object")
        && jsonschema::draft202012::meta::is_valid(schema)
    {
        return Some(format!("`/type`: {} is not \"object\"", schema["type"]));
    }
    let invalid = match jsonschema::meta::options().validate(schema) {
        // A `$schema` that names no known draft is read as the latest one.
        Err(error) if matches!(error.kind(), ValidationErrorKind::Referencing(_)) => {
            jsonschema::draft202012::meta::validate(schema)
        }
        result => result,
    };
    invalid.err().map(|error| {
        let path = error.instance_path().as_str();
        let path = if path.is_empty() { "/" } else { path };
        truncate(&format!("`{path}`: {error}"), 300)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skillhost_payload::{ApprovalPolicy, TaskSupport, ToolAudience};

    use super::*;

    fn check_of(input_schema: Value) -> ArgumentCheck {
        ArgumentCheck::new(Arc::new(ToolSpec {
            name: "greet".to_owned(),
            description: String::new(),
            input_schema,
            output_schema: None,
            read_only: true,
            destructive: false,
            needs_approval: ApprovalPolicy::Never,
            audience: ToolAudience::Agent,
            changes_skills: false,
            effect: None,
            task: TaskSupport::Never,
            needs: Vec::new(),
            skill_use: None,
        }))
    }

    #[test]
    fn arguments_match_schema() {
        let check = check_of(json!({
            "type": "object",
            "properties": {"name": {"type": "string"}, "times": {"type": "integer"}},
            "required": ["name"],
            "additionalProperties": false
        }));
        assert_eq!(check.check(r#" {"name": "Ada", "times": 2}"#), Ok(()));
        let message = |text| check.check(text).unwrap_err().message;
        assert_eq!(message("[1]"), "arguments are not a JSON object");
        assert_eq!(message("\"x\""), "arguments are not a JSON object");
        for text in ["{\"a\": }", "{} {}", ""] {
            assert!(message(text).starts_with("arguments are not valid JSON"), "{text}");
        }
        let expected = |mistakes| format!("arguments of `greet` are not valid: {mistakes}");
        assert_eq!(message(r#"{"name": 1}"#), expected("`/name`: 1 is not of type \"string\""));
        assert_eq!(message("{}"), expected("field `name` is missing"));
        assert_eq!(
            message(r#"{"name": "Ada", "nam": 1}"#),
            expected("unknown field `nam`; did you mean name?")
        );
    }

    #[test]
    fn mistake_list_is_truncated() {
        let check = check_of(json!({"type": "object", "required": ["a", "b", "c", "d", "e", "f",
            "g", "h", "i", "j"]}));
        let message = check.check("{}").unwrap_err().message;
        assert!(message.ends_with("field `h` is missing; and 2 more"), "{message}");
    }

    #[test]
    fn unusable_schema_allows_call() {
        for schema in [json!({"type": 7}), json!({"$ref": "http://127.0.0.1:1/x.json"})] {
            assert_eq!(check_of(schema).check("{\"a\": 1}"), Ok(()));
        }
    }

    #[test]
    fn recursive_schema_ends() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}},
                   "$ref": "#/$defs/a"}),
        ] {
            let _ = check_of(schema).check("{\"a\": {\"b\": 1}}");
        }
    }

    #[test]
    fn schema_mistakes_are_located() {
        let object = |properties| json!({"type": "object", "properties": properties});
        for usable in [
            json!({}),
            object(json!({"a": {"type": ["string", "null"]}})),
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}),
            json!({"$schema": "https://example.org/own", "type": "object"}),
            object(json!({"a": {"$ref": "https://example.org/a.json"}})),
        ] {
            assert_eq!(schema_mistake(&usable), None, "{usable}");
        }
        let mistake = |schema| schema_mistake(&schema).unwrap();
        assert_eq!(mistake(json!({"type": "array"})), "`/type`: \"array\" is not \"object\"");
        assert!(mistake(json!({"type": "objekt"})).starts_with("`/type`: \"objekt\" is not"));
        let nested = mistake(object(json!({"a": {"type": "strin"}})));
        assert!(nested.starts_with("`/properties/a/type`: \"strin\" is not"), "{nested}");
        assert!(mistake(json!({"required": "a"})).starts_with("`/required`: "));
        let own = json!({"$schema": "https://example.org/own", "required": "a"});
        assert!(mistake(own).starts_with("`/required`: "));
    }
}
