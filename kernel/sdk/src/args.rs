//! The arguments of a tool call.

use serde::Deserialize;
use serde_json::Value;
use skillhost_payload::OperatorCommand;

use crate::error::{ExtensionError, Result};

/// The arguments of one tool call, as unparsed JSON text.
#[derive(Debug, Clone, Copy)]
pub struct ToolArgs<'a> {
    text: &'a str,
}

impl<'a> ToolArgs<'a> {
    /// Wraps JSON text.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self { text }
    }

    /// Returns the unchanged text.
    #[must_use]
    pub fn as_str(&self) -> &'a str {
        self.text
    }

    /// Parses the arguments into a type.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind) naming the argument that is missing, of the
    /// wrong type or (with `#[serde(deny_unknown_fields)]`) unknown.
    pub fn parse<T: Deserialize<'a>>(&self) -> Result<T> {
        serde_json::from_str(self.text).map_err(|error| {
            // The position in a one-line JSON text is useless to a model; the field name suffices.
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or(&message);
            ExtensionError::invalid_argument(format!("arguments: {message}")).with_hint(format!(
                "see the tool's input schema: {}",
                OperatorCommand::PrintToolSchemas
            ))
        })
    }

    /// Parses the arguments as a JSON value.
    ///
    /// # Errors
    /// As [`ToolArgs::parse`].
    pub fn value(&self) -> Result<Value> {
        self.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Greeting {
        name: String,
    }

    #[test]
    fn parse_error_names_the_argument() {
        let parse = |text| ToolArgs::new(text).parse::<Greeting>();
        assert_eq!(parse(r#"{"name":"Ada"}"#).unwrap(), Greeting { name: "Ada".into() });
        let message = |text| parse(text).unwrap_err().message().to_owned();
        assert_eq!(message("{}"), "arguments: missing field `name`");
        assert_eq!(
            message(r#"{"name":"Ada","age":3}"#),
            "arguments: unknown field `age`, expected `name`"
        );
        assert_eq!(
            message(r#"{"name":3}"#),
            "arguments: invalid type: integer `3`, expected a string"
        );
    }
}
