//! The `agent` part of a manifest.

use std::ops::Deref;

use serde::{Deserialize, Serialize};

/// A declarative agent: a model, its instructions and what it may use.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentManifest {
    /// How other agents reach it.
    pub integration_mode: IntegrationMode,
    /// The model it runs on; without one the settings' default is used.
    pub model: Option<String>,
    /// Instructions that follow `prompt.jinja2` and the bound skills.
    pub instructions: Option<String>,
    /// Whether the model may ask for several tools at once; absent: the model's own default.
    pub parallel_tool_calls: Option<bool>,
    /// Parameters handed to the model as they are (such as `temperature`); always a JSON object.
    pub parameters: serde_json::Value,
    /// The tools it is offered: their names, or ids of extensions with all of theirs; no duplicates.
    pub uses_tools: Vec<Located<String>>,
    /// The ids of the skills whose instructions it always carries, in order; no duplicates.
    pub uses_skills: Vec<Located<String>>,
    /// Which skills its catalog lists. Without a statement: `declared` if it binds skills, `all`
    /// if it does not (design: search and scope).
    pub catalog: AgentCatalog,
    /// What a skill's `allowed-tools` means for it.
    pub allowed_tools_mode: AllowedToolsMode,
    /// What one invocation may use up.
    pub limits: AgentLimits,
}

/// How an agent is reached by other agents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IntegrationMode {
    /// By operators, and by delegation under its id.
    #[default]
    Standalone,
    /// Besides, as a tool of its own that carries its id.
    Tool,
}

/// Which skills an agent's catalog lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentCatalog {
    /// Every skill.
    All,
    /// Only those in `uses_skills`.
    Declared,
    /// None.
    None,
    /// Those whose id matches a glob of `include` and none of `exclude`.
    #[serde(untagged)]
    Globs {
        /// Globs over skill ids; `["*"]` where the manifest has only `exclude`. Empty: no skill.
        include: Vec<String>,
        /// Globs over skill ids.
        exclude: Vec<String>,
    },
}

/// What a skill's `allowed-tools` means while an agent uses the skill.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AllowedToolsMode {
    /// The tools named need no further approval.
    #[default]
    Grant,
    /// Only the tools named may be called.
    Restrict,
}

/// What one invocation of an agent may use up; each is positive, absent means no own limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentLimits {
    /// The number of model calls.
    pub max_turns: Option<u32>,
    /// The number of tokens, input and output together.
    pub max_tokens_per_invocation: Option<u64>,
    /// The wall-clock time, in milliseconds.
    pub time_budget_ms: Option<u64>,
}

/// A value and the place in the manifest where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// The line, from 1.
    pub line: u32,
    /// The column, in characters from 1.
    pub column: u32,
}

impl<T> Deref for Located<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
