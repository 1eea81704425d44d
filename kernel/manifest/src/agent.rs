//! The `agent` part of a manifest.

use std::ops::Deref;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A declarative agent: a model with instructions, tools, skills and limits.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentManifest {
    /// The way in which other agents call it.
    pub integration_mode: IntegrationMode,
    /// The model that it runs on; `None` means the default in the settings.
    pub model: Option<String>,
    /// Instructions that follow `prompt.jinja2` and the bound skills.
    pub instructions: Option<String>,
    /// The model may request several tool calls at once; `None` means the default of the model.
    pub parallel_tool_calls: Option<bool>,
    /// Parameters passed to the model unchanged (such as `temperature`); always a JSON object.
    pub parameters: serde_json::Value,
    /// The names of its tools, or ids of extensions for all of their tools; no duplicates.
    pub uses_tools: Vec<Located<String>>,
    /// The ids of the skills whose instructions are always in its prompt, in order; no duplicates.
    pub uses_skills: Vec<Located<String>>,
    /// The skills in its catalog. The default is `declared` if it binds skills, otherwise `all`.
    pub catalog: AgentCatalog,
    /// The effect of a skill's `allowed-tools`.
    pub allowed_tools_mode: AllowedToolsMode,
    /// The effect of a skill's security manifest; `None` means the default of the settings.
    pub capability_mode: Option<CapabilityMode>,
    /// The limits of one invocation.
    pub limits: AgentLimits,
}

/// The way in which other agents call an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IntegrationMode {
    /// By operators, and by delegation under its id.
    #[default]
    Standalone,
    /// Additionally as a tool named by its id.
    Tool,
}

/// The skills that an agent's catalog lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentCatalog {
    /// Every skill.
    All,
    /// Only the skills in `uses_skills`.
    Declared,
    /// No skill.
    None,
    /// The skills whose id matches a glob of `include` and no glob of `exclude`.
    // Serde tries the untagged form after the words above.
    #[serde(untagged)]
    Globs {
        /// Globs over skill ids; `["*"]` if the manifest has only `exclude`. Empty means no skill.
        include: Vec<String>,
        /// Globs over skill ids.
        exclude: Vec<String>,
    },
}

/// The effect of a skill's `allowed-tools` while an agent uses the skill.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AllowedToolsMode {
    /// The listed tools require no further approval.
    #[default]
    Grant,
    /// Only the listed tools may be called.
    Restrict,
}

/// The effect of a skill's security manifest while an agent uses the skill, the weakest first.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CapabilityMode {
    /// It has none.
    Off,
    /// The first call that uses an undeclared capability is reported.
    #[default]
    Report,
    /// A call that uses an undeclared capability is refused.
    Enforce,
}

/// The limits of one invocation of an agent; each is positive, `None` means no own limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentLimits {
    /// The maximum number of model requests.
    pub max_turns: Option<u32>,
    /// The maximum number of tokens, input and output together.
    pub max_tokens_per_invocation: Option<u64>,
    /// The maximum active time, in milliseconds: model requests and tool calls count, waits do not.
    pub time_budget_ms: Option<u64>,
}

/// A value and its position in the manifest.
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
