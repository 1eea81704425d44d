//! The caller of a call.

use serde::{Deserialize, Serialize};

use crate::active_skills::SkillRef;
use crate::tool_input::InputResponse;
use crate::workspace::Workspace;

/// The caller, turn and deadline of a call; passed with every call.
///
/// Scopes, authors and sessions are taken from here, never from arguments that a model wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallContext {
    /// The agent on whose behalf the call happens; empty for an operator.
    pub agent_id: String,
    /// The session id.
    pub session_id: String,
    /// The turn within the session.
    pub turn_id: String,
    /// A number unique within the process; log events of the callee carry it.
    pub call_id: u64,
    /// The milliseconds that remain for the callee; absent means no limit. In a run with a time budget,
    /// it is the active time that remains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// The size of the model's context window in tokens, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u32>,
    /// The agent's bound skills.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses_skills: Vec<String>,
    /// The agent's catalog scope.
    #[serde(default)]
    pub catalog: CatalogScope,
    /// The origin of the call.
    #[serde(default)]
    pub origin: CallOrigin,
    /// The id of the user message or event that started the chain of calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The digest of the [`ToolEffect`](crate::ToolEffect) that a person approved; set by the kernel.
    // The tool makes exactly these changes or fails with `Conflict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_effect: Option<String>,
    /// The directories of the user that the call may reach besides the sandbox; set by the kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workspaces: Vec<Workspace>,
    /// The active skills of the thread, the most recent last; set by the kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub active_skills: Vec<SkillRef>,
    /// The delegations (`agent ID`) and programs of skills (`program TOOL`) between the user's run and
    /// the call, the outermost first; set by the kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub call_chain: Vec<String>,
    /// The operator's policy for a program of a skill, as JSON; only in an operator's own call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_policy: Option<String>,
    /// The caller has another tool that opens files by their path; set by the kernel.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reads_files: bool,
    /// The key of the call, the same at every attempt of it, also after a restart; set by the kernel
    /// for each call of a run. A tool whose effect is [`CallEffect::Keyed`](crate::CallEffect)
    /// remembers it with its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The number of the call within its run, which grows by one with each tool call of the model; the
    /// numbers of different runs are far apart. Set by the kernel for each call of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_number: Option<u64>,
    /// The answers to the questions of earlier attempts; present if the call may end with questions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Box<InputResponse>>,
}

/// The depth limit of delegations and programs of skills together: the length of a call chain.
pub const MAX_CALL_DEPTH: usize = 4;

/// The origin of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOrigin {
    /// A model running as an agent.
    #[default]
    Agent,
    /// A person at the command line.
    Operator,
    /// A client of the MCP server.
    Mcp,
}

/// The skills that an agent's catalog lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatalogScope {
    /// Every skill.
    #[default]
    All,
    /// Only the agent's `uses_skills`.
    Declared,
    /// No skill.
    None,
    /// The skills that match `include` and do not match `exclude`.
    #[serde(untagged)]
    Globs {
        /// Globs of ids to list, `*` if absent; an empty list matches no skill.
        #[serde(default = "every_id")]
        include: Vec<String>,
        /// Globs of ids to omit.
        #[serde(default)]
        exclude: Vec<String>,
    },
}

fn every_id() -> Vec<String> {
    vec!["*".to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalog_scope_parses_manifest_forms() {
        let parse = |text| serde_json::from_str::<CatalogScope>(text).unwrap();
        assert_eq!(parse("\"declared\""), CatalogScope::Declared);
        assert_eq!(
            parse(r#"{"include":["code-*"]}"#),
            CatalogScope::Globs { include: vec!["code-*".into()], exclude: vec![] }
        );
        assert_eq!(
            parse(r#"{"exclude":["code-*"]}"#),
            CatalogScope::Globs { include: vec!["*".into()], exclude: vec!["code-*".into()] }
        );
    }

    #[test]
    fn unknown_context_fields_are_ignored() {
        let text = r#"{"agent_id":"a","session_id":"s","turn_id":"t","call_id":7,"new_field":1}"#;
        let context: CallContext = serde_json::from_str(text).unwrap();
        assert_eq!(context.call_id, 7);
        assert_eq!(context.origin, CallOrigin::Agent);
    }
}
