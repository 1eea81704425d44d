//! The tools of agents and the skills that agents bind, as a kernel tells a provider of skills.

use serde::{Deserialize, Serialize};

/// A tool that an agent may call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentTool {
    /// Its name, or another name that the settings give to it.
    pub name: String,
    /// Its version: that of its extension's manifest, or that its server reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// The tools of one agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentTools {
    /// The id of the agent.
    pub agent_id: String,
    /// Its tools.
    pub tools: Vec<AgentTool>,
}

/// A request to check the skills that an agent binds, before any of them is bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindingRequest {
    /// The agent and its tools.
    pub agent: AgentTools,
    /// The ids of the skills.
    pub skill_ids: Vec<String>,
}

/// A reason why an agent cannot bind its skills.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindingProblem {
    /// The id of the skill.
    pub skill_id: String,
    /// The reason.
    pub message: String,
    /// A hint; may be empty.
    #[serde(default)]
    pub hint: String,
}
