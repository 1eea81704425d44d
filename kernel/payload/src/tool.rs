//! Tools, their calls and their results.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::active_skills::{ActiveSkillsChange, SkillRef};
use crate::context::CallContext;
use crate::tool_input::InputRequest;

/// A tool as it is offered to a caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name, unique among all loaded extensions.
    pub name: String,
    /// The purpose and the use of the tool, for the model.
    pub description: String,
    /// The JSON Schema of the arguments, an object.
    pub input_schema: Value,
    /// The JSON Schema of the structured result, an object; the result is as complete as the text.
    // A client may pass only one of the two to its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// The tool has no side effects.
    #[serde(default)]
    pub read_only: bool,
    /// The tool may delete or overwrite data.
    #[serde(default)]
    pub destructive: bool,
    /// The condition under which a call requires approval.
    #[serde(default)]
    pub needs_approval: ApprovalPolicy,
    /// The callers that the tool is offered to.
    #[serde(default)]
    pub audience: ToolAudience,
    /// The tool may change the active skills. In one reply of a model it runs after the calls before
    /// it and before those after it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes_skills: bool,
    /// Whether a call of a client of the MCP server may or must become a background task.
    #[serde(default, skip_serializing_if = "TaskSupport::is_never")]
    pub task: TaskSupport,
    /// The effect of repeating a call; absent for the default of [`ToolSpec::call_effect`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<CallEffect>,
    /// The capabilities that a call uses, such as `file:write`; empty for `tool:NAME` alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// The use of a skill by a call, for telemetry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill_use: Option<SkillUse>,
}

/// The use of a skill by the calls of a tool, and the arguments that name the skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillUse {
    /// The part of the skill that is used.
    pub kind: SkillUseKind,
    /// The argument with the id of the skill, or with a list of ids; a call without it uses the skill
    /// that was loaded last.
    pub skill_argument: String,
    /// The argument with the path of the file in the skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_argument: Option<String>,
}

/// The part of a skill that a call uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkillUseKind {
    /// Its instructions.
    Instructions,
    /// A file.
    Resource,
    /// A script, which is run.
    Script,
}

impl ToolSpec {
    /// Returns the capabilities that a call uses: the declared ones, else `tool:NAME`.
    #[must_use]
    pub fn required_capabilities(&self) -> Vec<Cow<'_, str>> {
        match self.needs.as_slice() {
            [] => vec![format!("tool:{}", self.name).into()],
            needs => needs.iter().map(|need| Cow::Borrowed(need.as_str())).collect(),
        }
    }

    /// Returns the effect of repeating a call: the declared one, else [`CallEffect::Read`] for a
    /// tool without side effects and [`CallEffect::Once`] for any other.
    #[must_use]
    pub fn call_effect(&self) -> CallEffect {
        match self.effect {
            Some(effect) => effect,
            None if self.read_only => CallEffect::Read,
            None => CallEffect::Once,
        }
    }
}

/// The effect of repeating a tool call, which decides what the kernel does with a call that a crash
/// interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallEffect {
    /// A call has no effect. It is called again.
    Read,
    /// A second call with the same [`CallContext::idempotency_key`] has no further effect and
    /// returns the same result. It is called again.
    Keyed,
    /// A second call may have the effect a second time. A person decides about it.
    Once,
}

/// Returns the JSON Schema of an object with these properties and no others, for the arguments or the
/// structured result of a tool.
#[must_use]
pub fn object_schema(properties: &Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// The condition under which a tool call requires approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalPolicy {
    /// No approval is required.
    #[default]
    Never,
    /// Approval is required unless an active skill's `allowed-tools` names the tool.
    UnlessGranted,
    /// Approval is always required.
    Always,
}

/// Whether a call of a client of the MCP server becomes a background task, which the client polls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskSupport {
    /// Never: the client waits for the result.
    #[default]
    Never,
    /// If the client can poll tasks.
    May,
    /// Always: a client that cannot poll tasks cannot call the tool.
    Must,
}

impl TaskSupport {
    /// Returns whether no call becomes a task.
    #[must_use]
    pub fn is_never(&self) -> bool {
        *self == Self::Never
    }
}

/// The callers that a tool is offered to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolAudience {
    /// Models and operators.
    #[default]
    Agent,
    /// Operators only.
    Operator,
}

/// A call of another extension's tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolCall {
    /// The context of the original call, unchanged.
    pub context: CallContext,
    /// The name of the tool.
    pub name: String,
    /// The arguments.
    pub arguments: Box<RawValue>,
}

/// A tool result: text for the model and an optional value for programs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ToolOutput {
    /// The text for the model.
    pub text: String,
    /// The value for programs.
    // Raw text: the kernel only passes it on, and parsing would be most of the cost of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Box<RawValue>>,
    /// The text describes a failure that the model should react to.
    #[serde(default)]
    pub is_error: bool,
    /// The skill whose instructions are in the text; the agent runtime retains them in the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<SkillRef>,
    /// The change of the active skills; the agent runtime applies it if the tool's extension provides
    /// skills and the tool `changes_skills`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skills_change: Option<ActiveSkillsChange>,
    /// The questions with which the call ended instead of a result; only for a call whose context has
    /// [`CallContext::input`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_request: Option<Box<InputRequest>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_effect_is_once_or_read() {
        let effect = |more: &str| {
            let text = format!(r#"{{"name":"t","description":"","input_schema":{{}}{more}}}"#);
            serde_json::from_str::<ToolSpec>(&text).unwrap().call_effect()
        };
        assert_eq!(effect(""), CallEffect::Once);
        assert_eq!(effect(r#","read_only":true"#), CallEffect::Read);
        assert_eq!(effect(r#","effect":"read""#), CallEffect::Read);
        assert_eq!(effect(r#","effect":"keyed""#), CallEffect::Keyed);
        assert_eq!(effect(r#","read_only":true,"effect":"once""#), CallEffect::Once);
    }
}
