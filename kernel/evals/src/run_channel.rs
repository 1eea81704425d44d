//! The client of a run: it counts tool calls, and approves changes of files alone.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use skill_evals::{ExecutionMetrics, commands_of_call};
use skillhost_conversation::{ApprovalDecision, ApprovalRequest, Channel, RunEvent};

/// The extension whose changes of files are approved: they are confined to the workspace of the run
/// and to the home that is removed after it.
const FILE_TOOLS: &str = "core_tools";

/// The tools that the observations of a run are about.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenCalls {
    /// The counts.
    pub(crate) metrics: ExecutionMetrics,
    /// The commands that were run.
    pub(crate) commands: Vec<Vec<String>>,
    /// The skills that became active.
    pub(crate) active: Vec<String>,
}

/// The client of a run.
#[derive(Default)]
pub(crate) struct RunChannel {
    seen: Mutex<SeenCalls>,
}

impl RunChannel {
    /// Returns the observations.
    pub(crate) fn seen(&self) -> SeenCalls {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Channel for RunChannel {
    fn on_event(&self, event: &RunEvent) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            // Calls of agents that received a delegated task, too.
            RunEvent::ToolStarted { tool, arguments, .. } => {
                seen.metrics.total_tool_calls += 1;
                seen.commands.extend(commands_of_call(tool, arguments).into_iter().flatten());
            }
            RunEvent::ToolFinished { is_error: true, .. } => seen.metrics.errors_encountered += 1,
            RunEvent::SkillActive { skill_id, .. } => seen.active.push(skill_id.clone()),
            _ => {}
        }
    }

    async fn request_approval(&self, request: &ApprovalRequest) -> ApprovalDecision {
        match request.extension == FILE_TOOLS {
            true => ApprovalDecision::Once,
            false => ApprovalDecision::Refuse {
                reason: "a test approves changes of files alone".to_owned(),
            },
        }
    }
}
