//! Tasks that extensions delegate to agents.

use serde::{Deserialize, Serialize};

use crate::context::CallContext;

/// A task that an extension delegates to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentTask {
    /// The context of the original call; its session and deadline apply to the run.
    pub context: CallContext,
    /// The id of the agent.
    pub agent_id: String,
    /// The complete task; the agent sees no other text of the caller.
    pub task: String,
}

/// The reply of an agent to a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentAnswer {
    /// The text of the last reply.
    pub text: String,
    /// The id of the run and its transcript.
    pub run_id: String,
}
