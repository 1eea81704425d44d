//! The result of a run.

use skillhost_manifest::ExtensionId;
use skillhost_payload::SkillRef;

use crate::usage::TokenUsage;

/// The result of a run.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RunOutcome {
    /// The run's id, which also names the transcript.
    pub run_id: String,
    /// The agent.
    pub agent: ExtensionId,
    /// The model, `provider/model`.
    pub model: String,
    /// The last reply.
    pub text: String,
    /// The number of model requests, without those for summaries.
    pub turns: u32,
    /// The tokens of this run's requests, with summaries and without delegated runs.
    pub usage: TokenUsage,
    /// The cost of these tokens; `None` where the price is unknown.
    pub cost: Option<f64>,
    /// The skills that are active in the thread.
    pub skills: Vec<SkillRef>,
}
