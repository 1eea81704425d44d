//! Agents as a kernel describes them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use skillhost_manifest::{AgentCatalog, AgentLimits, ExtensionId};

/// The agent of a turn that names none.
pub const DEFAULT_AGENT: &str = "orchestrator_agent";

/// The source of an instruction layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstructionLayerKind {
    /// The `prompt.jinja2` in the directory of the manifest.
    Prompt,
    /// A bound skill.
    Skill,
    /// The manifest's `agent.instructions`.
    Inline,
}

/// One layer of an agent's instructions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstructionLayer {
    /// The kind of the layer.
    pub kind: InstructionLayerKind,
    /// The path of a file, or the skill's source.
    pub source: String,
    /// The skill's id; `None` for other kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill_id: Option<String>,
    /// The sha256 of the SKILL.md for a skill, else of the text.
    pub digest: String,
    /// The estimated tokens of the text.
    pub tokens: u32,
    /// The text of the layer.
    pub text: String,
}

/// An error that prevents the resolution of an agent's instructions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentError {
    /// The reason, with path and line.
    pub reason: String,
    /// The hint for the operator.
    pub hint: String,
}

/// The status of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentStatus {
    /// Its instructions are complete, so it can take a turn.
    Ready,
    /// Its instructions are incomplete; see the problem.
    Error,
}

/// An agent in a list.
#[derive(Debug, Serialize, Deserialize)]
pub struct AgentSummary {
    /// The agent's id.
    pub id: ExtensionId,
    /// The display name.
    pub name: String,
    /// True if it can take a turn.
    pub state: AgentStatus,
    /// The reason for the error state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<AgentError>,
    /// The skills bound to it, as the manifest names them.
    pub uses_skills: Vec<String>,
    /// The tools, and the extensions whose tools, it may call.
    pub uses_tools: Vec<String>,
    /// The estimated tokens of its instructions.
    pub tokens: u32,
}

/// An agent with the layers of its instructions.
#[derive(Debug, Serialize, Deserialize)]
pub struct AgentDetails {
    /// The entry of the list.
    #[serde(flatten)]
    pub summary: AgentSummary,
    /// The path of its manifest.
    pub manifest: PathBuf,
    /// The layers in order; empty in the error state.
    pub layers: Vec<InstructionLayer>,
    /// The names of the tools it may call.
    pub tools: Vec<String>,
    /// The model; `None` if the manifest names none.
    pub model: Option<String>,
    /// The scope of its skill catalog.
    pub catalog: AgentCatalog,
    /// The limits of one invocation.
    pub limits: AgentLimits,
}
