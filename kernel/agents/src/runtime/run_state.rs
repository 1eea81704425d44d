//! The state of a run in progress, which its turns share.

use std::sync::Arc;

use skillhost_conversation::{ModelProvider, ModelTool, Thread, TokenUsage};
use skillhost_core::Agent;
use skillhost_payload::CallContext;
use tokio_util::sync::CancellationToken;

use super::RunError;
use super::session::RunSession;
use super::skills::ActiveSkills;
use crate::agent_runtime::AgentRuntime;

/// A run in progress.
pub(super) struct AgentRun<'t> {
    pub(super) agents: AgentRuntime,
    pub(super) agent: Arc<Agent>,
    pub(super) model: Arc<dyn ModelProvider>,
    pub(super) session: Arc<RunSession>,
    pub(super) cancel: CancellationToken,
    pub(super) skills: ActiveSkills,
    pub(super) spent: RunUsage,
    pub(super) thread: &'t mut Thread,
}

/// The usage and cost of a run's model requests.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RunUsage {
    pub(super) usage: TokenUsage,
    /// `None` where the model's price is unknown.
    pub(super) cost: Option<f64>,
}

/// The inputs of one turn.
pub(super) struct TurnContext {
    pub(super) number: u32,
    /// The caller of every tool call of this turn.
    pub(super) context: CallContext,
    /// The instructions and the blocks of the context chain.
    pub(super) system: String,
    pub(super) tools: Vec<ModelTool>,
}

impl AgentRun<'_> {
    /// Awaits a future; drops it when the run is cancelled or its time is up.
    pub(super) async fn cancellable<T>(
        &self,
        future: impl Future<Output = T>,
    ) -> Result<T, RunError> {
        tokio::select! {
            // Cancellation wins over a future that is ready at the same moment.
            biased;
            () = self.cancel.cancelled() => Err(RunError::Cancelled),
            // A durable run continues in the next kernel, so it is not reported as cancelled.
            () = self.agents.run_gate().wait_until_shutdown() => Err(match self.session.durable {
                true => RunError::Restarting,
                false => RunError::Cancelled,
            }),
            which = self.session.budget.wait_for_deadline() => Err(RunError::Budget { which }),
            output = future => Ok(output),
        }
    }

    pub(super) fn model_name(&self) -> String {
        self.model.metadata().name.clone()
    }

    pub(super) fn note_once(&self, text: String) {
        self.session.reporter.note_once(text);
    }
}
