//! Tool declarations and tool results, with constructors for authors.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use skillhost_payload::{
    ActiveSkillsChange, ApprovalPolicy, CallEffect, ErrorKind, SkillRef, TaskSupport, ToolAudience,
};

use crate::error::{ExtensionError, Result};

/// A tool as it is offered to a caller.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec(pub(crate) skillhost_payload::ToolSpec);

impl ToolSpec {
    /// Creates a declaration from a name unique among all extensions, a description for the model
    /// and the JSON Schema of the arguments.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: Value,
    ) -> Self {
        Self(skillhost_payload::ToolSpec {
            name: name.into(),
            description: description.into(),
            input_schema,
            output_schema: None,
            read_only: false,
            destructive: false,
            needs_approval: ApprovalPolicy::Never,
            audience: ToolAudience::Agent,
            changes_skills: false,
            effect: None,
            task: TaskSupport::Never,
            needs: Vec::new(),
            skill_use: None,
        })
    }

    /// Declares the capabilities that a call uses, such as `file:write`.
    ///
    /// A skill with a security manifest may be limited to the tools whose capabilities it declares.
    /// Without this, a tool uses the capability `tool:NAME`.
    #[must_use]
    pub fn needs<C: Into<String>>(mut self, capabilities: impl IntoIterator<Item = C>) -> Self {
        self.0.needs = capabilities.into_iter().map(Into::into).collect();
        self
    }

    /// Declares whether a call of a client of the MCP server becomes a background task.
    #[must_use]
    pub fn task(mut self, support: TaskSupport) -> Self {
        self.0.task = support;
        self
    }

    /// Declares the JSON Schema of the structured result, an object.
    ///
    /// MCP clients may pass that result to the model instead of the text, so it must be as complete
    /// as the text.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.0.output_schema = Some(schema);
        self
    }

    /// Declares that the tool has no side effects.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.0.read_only = true;
        self
    }

    /// Declares the effect of repeating a call. Without it, a tool is [`CallEffect::Read`] if it is
    /// [`ToolSpec::read_only`], and [`CallEffect::Once`] otherwise: the kernel never repeats such a
    /// call by itself.
    ///
    /// A [`CallEffect::Keyed`] tool stores
    /// [`CallContext::idempotency_key`](crate::CallContext::idempotency_key) together with its
    /// effect, and answers a second call with the same key from what it stored:
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use std::sync::Mutex;
    ///
    /// use skillhost_sdk::prelude::*;
    /// use skillhost_sdk::CallEffect;
    ///
    /// /// Orders by key; a real tool has them in the same transaction as the order.
    /// struct Shop(Mutex<BTreeMap<String, u64>>);
    ///
    /// #[async_trait]
    /// impl ToolProvider for Shop {
    ///     fn tools(&self, _: &CallContext) -> Vec<ToolSpec> {
    ///         let schema = json!({"type": "object"});
    ///         vec![ToolSpec::new("order", "Places an order.", schema).effect(CallEffect::Keyed)]
    ///     }
    ///
    ///     async fn invoke(&self, cx: &CallContext, _: &str, _: ToolArgs<'_>) -> Result<ToolOutput> {
    ///         let mut orders = self.0.lock().map_err(|_| ExtensionError::failed("the shop is shut"))?;
    ///         let next = orders.len() as u64 + 1;
    ///         let number = match &cx.idempotency_key {
    ///             Some(key) => *orders.entry(key.clone()).or_insert(next),
    ///             // A call outside of a run has no key; a person makes it again or does not.
    ///             None => next,
    ///         };
    ///         Ok(ToolOutput::text(format!("order {number}")))
    ///     }
    /// }
    /// # fn main() {}
    /// ```
    #[must_use]
    pub fn effect(mut self, effect: CallEffect) -> Self {
        self.0.effect = Some(effect);
        self
    }

    /// Declares that the tool may delete or overwrite data.
    #[must_use]
    pub fn destructive(mut self) -> Self {
        self.0.destructive = true;
        self
    }

    /// Declares the condition under which a call requires approval.
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

    /// Returns the tool's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }
}

/// Offers a tool that another crate declares in the shape on the wire.
impl From<skillhost_payload::ToolSpec> for ToolSpec {
    fn from(spec: skillhost_payload::ToolSpec) -> Self {
        Self(spec)
    }
}

/// A tool result: text for the model and an optional value for programs.
#[derive(Debug, Clone)]
pub struct ToolOutput(pub(crate) skillhost_payload::ToolOutput);

impl ToolOutput {
    /// Creates a result from text.
    pub fn text(text: impl Into<String>) -> Self {
        Self(skillhost_payload::ToolOutput {
            text: text.into(),
            ..skillhost_payload::ToolOutput::default()
        })
    }

    /// Adds a value for programs.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] when the value cannot be serialized as JSON.
    pub fn with_structured<T: Serialize + ?Sized>(mut self, value: &T) -> Result<Self> {
        let text = serde_json::to_string(value)
            .and_then(RawValue::from_string)
            .map_err(|error| ExtensionError::new(ErrorKind::Protocol, error.to_string()))?;
        self.0.structured = Some(text);
        Ok(self)
    }

    /// Declares that the text contains a skill's instructions in the version of a SKILL.md digest.
    ///
    /// The agent follows them for the rest of the thread.
    #[must_use]
    pub fn with_skill(mut self, skill_id: impl Into<String>, digest: impl Into<String>) -> Self {
        let (skill_id, digest) = (skill_id.into(), digest.into());
        self.0.skill = Some(SkillRef { skill_id, digest, tree: None });
        self
    }

    /// Declares a change of the active skills of the thread; the kernel accepts it from skill providers.
    #[must_use]
    pub fn with_skills_change(mut self, change: ActiveSkillsChange) -> Self {
        self.0.skills_change = Some(change);
        self
    }

    /// Returns the text.
    #[must_use]
    pub fn as_text(&self) -> &str {
        &self.0.text
    }

    /// Marks the text as the description of a failure that the model should react to.
    ///
    /// For a failure with a kind and a hint, return an [`ExtensionError`] instead.
    #[must_use]
    pub fn as_error(mut self) -> Self {
        self.0.is_error = true;
        self
    }

    pub(crate) fn from_payload(output: skillhost_payload::ToolOutput) -> Self {
        Self(output)
    }

    /// Returns the structured value as JSON text, or `None` without one.
    #[must_use]
    pub fn structured(&self) -> Option<&str> {
        self.0.structured.as_deref().map(RawValue::get)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_skill_serializes_skill_ref() {
        let output = ToolOutput::text("Do it.").with_skill("demo", "ab12");
        let expected =
            r#"{"text":"Do it.","is_error":false,"skill":{"skill_id":"demo","digest":"ab12"}}"#;
        assert_eq!(serde_json::to_string(&output.0).unwrap(), expected);
    }
}
