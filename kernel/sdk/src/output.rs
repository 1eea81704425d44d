//! What tools declare and answer, with constructors for authors.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use skillhost_contract::payload::{self, ApprovalPolicy, ErrorKind, SkillRef, ToolAudience};

use crate::error::{ExtensionError, Result};

/// One tool as it is offered to a caller.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec(pub(crate) payload::ToolSpec);

impl ToolSpec {
    /// Declares a tool: a name unique among all extensions, a description for the model, and the
    /// JSON Schema of the arguments.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: Value,
    ) -> Self {
        Self(payload::ToolSpec {
            name: name.into(),
            description: description.into(),
            input_schema,
            output_schema: None,
            read_only: false,
            destructive: false,
            needs_approval: ApprovalPolicy::Never,
            audience: ToolAudience::Agent,
        })
    }

    /// Declares the JSON Schema of the structured result, an object. Clients over MCP may show a model
    /// that result instead of the text, so it has to say everything that the text says.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.0.output_schema = Some(schema);
        self
    }

    /// Declares that the tool changes nothing.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.0.read_only = true;
        self
    }

    /// Declares that the tool may destroy something.
    #[must_use]
    pub fn destructive(mut self) -> Self {
        self.0.destructive = true;
        self
    }

    /// Declares when the tool asks before it acts.
    #[must_use]
    pub fn needs_approval(mut self, approval: ApprovalPolicy) -> Self {
        self.0.needs_approval = approval;
        self
    }

    /// Offers the tool to operators only, never to a model.
    #[must_use]
    pub fn operator_only(mut self) -> Self {
        self.0.audience = ToolAudience::Operator;
        self
    }

    /// The tool's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }
}

/// What a tool answers: text for the model and, beside it, a value for programs.
#[derive(Debug, Clone)]
pub struct ToolOutput(pub(crate) payload::ToolOutput);

impl ToolOutput {
    /// Answers with text.
    pub fn text(text: impl Into<String>) -> Self {
        Self(payload::ToolOutput {
            text: text.into(),
            structured: None,
            is_error: false,
            skill: None,
        })
    }

    /// Adds a value for programs.
    ///
    /// # Errors
    /// When the value cannot be written as JSON.
    pub fn with_structured<T: Serialize + ?Sized>(mut self, value: &T) -> Result<Self> {
        let text = serde_json::to_string(value)
            .and_then(RawValue::from_string)
            .map_err(|error| ExtensionError::new(ErrorKind::Protocol, error.to_string()))?;
        self.0.structured = Some(text);
        Ok(self)
    }

    /// Declares that the text carries a skill's instructions as of a digest of its SKILL.md, which
    /// the agent works by from here on.
    #[must_use]
    pub fn with_skill(mut self, skill_id: impl Into<String>, digest: impl Into<String>) -> Self {
        self.0.skill = Some(SkillRef { skill_id: skill_id.into(), digest: digest.into() });
        self
    }

    /// The text.
    #[must_use]
    pub fn as_text(&self) -> &str {
        &self.0.text
    }

    /// Marks the text as the description of a failure that the model should react to. For a failure
    /// with a kind and a hint, return an [`ExtensionError`] instead.
    #[must_use]
    pub fn as_error(mut self) -> Self {
        self.0.is_error = true;
        self
    }

    pub(crate) fn from_payload(output: payload::ToolOutput) -> Self {
        Self(output)
    }

    /// The structured value as JSON text, where there is one.
    #[must_use]
    pub fn structured(&self) -> Option<&str> {
        self.0.structured.as_deref().map(RawValue::get)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skill_travels_beside_the_text() {
        let output = ToolOutput::text("Do it.").with_skill("demo", "ab12");
        let expected =
            r#"{"text":"Do it.","is_error":false,"skill":{"skill_id":"demo","digest":"ab12"}}"#;
        assert_eq!(serde_json::to_string(&output.0).unwrap(), expected);
    }
}
