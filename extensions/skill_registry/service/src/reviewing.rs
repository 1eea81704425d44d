//! Review of proposals by an agent, where the settings name one.
//!
//! The agent runs outside of any call, on one proposal after the other; the plugin runs it and
//! returns the answer. The result is advice that is attached to the proposal. Its approval suffices
//! only where the settings allow that, and never for a change that could extend the rights of a
//! skill.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use skill_catalog::Snapshot;
use skill_format::{Digest, sanitize_line};
use skill_ledger::{
    Ledger, LedgerError, LedgerEvent, LedgerNote, LedgerOutcome, ModelCheckMode, ProposalFilter,
    ProposalState, Recommendation, ReviewAdvice,
};

mod answer;
mod offer;
mod questions;
mod task;
mod text;

pub use offer::{apply_decision, load_offer};
pub use questions::list_review_questions;

/// The settings for decisions about proposals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReviewConfig {
    /// The role of an agent.
    pub policy: ReviewPolicy,
    /// The reviewing agent.
    pub agent: String,
    /// The time limit for an answer, in milliseconds.
    pub timeout_ms: u64,
    /// The checks of changes.
    pub checks: ReviewChecks,
}

/// The checks that a proposal of an agent has to pass before people see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReviewChecks {
    /// No query of any skill may be worse than before.
    pub routing: CheckMode,
    /// The consequence of runs with a model.
    #[serde(skip_serializing_if = "ModelCheckMode::is_default")]
    pub model: ModelCheckMode,
}

/// The consequence of a failed check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckMode {
    /// The proposal is refused.
    #[default]
    Require,
    /// The result is shown to the reviewers.
    Advise,
}

impl ReviewChecks {
    /// Returns whether a proposal that makes a query worse is refused.
    #[must_use]
    pub fn is_required(self) -> bool {
        self.routing == CheckMode::Require
    }
}

/// The role of an agent in decisions about proposals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReviewPolicy {
    /// No role.
    #[default]
    Human,
    /// Its advice is attached to each proposal; a person decides.
    AgentRecommends,
    /// Its approval suffices, except for its own proposals, for skills that agents created or that
    /// lie in an untrusted root, and for proposals with warnings.
    AgentApproves,
}

impl Default for ReviewConfig {
    fn default() -> Self {
        let agent = "reviewer_agent".to_owned();
        let checks = ReviewChecks::default();
        Self { policy: ReviewPolicy::default(), agent, timeout_ms: 300_000, checks }
    }
}

/// Writes the policy on one line.
impl fmt::Display for ReviewConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let agent = sanitize_line(&self.agent);
        match self.policy {
            ReviewPolicy::Human => f.write_str("human: people decide about proposals"),
            ReviewPolicy::AgentRecommends => {
                write!(f, "agent-recommends: the agent {agent} advises, people decide")
            }
            ReviewPolicy::AgentApproves => {
                write!(f, "agent-approves: proposals that the agent {agent} approves are applied")
            }
        }
    }
}

/// A review of one proposal, to be run by an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewTask {
    /// The proposal.
    pub proposal: String,
    /// The digest of the proposed text.
    pub digest: Digest,
    /// The agent.
    pub agent: String,
    /// The prompt, with all information for the agent.
    pub text: String,
    /// The time limit.
    pub limit: Duration,
}

/// The agent's answer and its run, or the reason for a missing answer.
pub type ReviewAnswer = Result<(String, RunId), String>;

/// The id of the run in which an answer was made.
pub type RunId = String;

/// Selects the proposals for the reviewing agent and applies its answers under the policy.
pub struct ProposalReviewer {
    config: ReviewConfig,
    ledger: Ledger,
    /// The proposals and digests of this process's tasks: none is reviewed twice.
    tried: Mutex<HashSet<(String, Digest)>>,
}

impl ProposalReviewer {
    /// Creates the reviewer of a ledger's proposals; opens no file.
    #[must_use]
    pub fn new(config: ReviewConfig, ledger: &Ledger) -> Self {
        let ledger = ledger.with_wait(Duration::from_secs(10));
        Self { config, ledger, tried: Mutex::default() }
    }

    /// Returns the next review task.
    ///
    /// # Errors
    /// The notes of the search, if no proposal needs a review.
    pub fn next_task(&self) -> Result<ReviewTask, Box<LedgerOutcome>> {
        if self.config.policy == ReviewPolicy::Human {
            return Err(Box::default());
        }
        match self.find() {
            Ok(Some(task)) => Ok(task),
            Ok(None) => Err(Box::new(self.to_outcome(Vec::new(), None))),
            Err(error) => Err(Box::new(self.to_outcome(Vec::new(), Some(error)))),
        }
    }

    fn find(&self) -> Result<Option<ReviewTask>, LedgerError> {
        let open = Some(ProposalState::Open);
        let filter = ProposalFilter { state: open, ..ProposalFilter::default() };
        for summary in self.ledger.proposals(filter)? {
            let key = (summary.id.clone(), summary.new_digest);
            // Marked also if it turns out unsuitable, so that its note is made once.
            let is_new = self.tried.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
            if summary.recommendation.is_some() || !is_new {
                continue;
            }
            let agent = &self.config.agent;
            if summary.author.agent_id == *agent {
                self.not_reviewed(&summary.id, format!("`{agent}` made it itself"));
                continue;
            }
            let proposal = self.ledger.proposal(&summary.id)?;
            let Some(text) = task::render_task(&proposal) else {
                self.not_reviewed(&summary.id, "it is too long for an agent".to_owned());
                continue;
            };
            return Ok(Some(ReviewTask {
                proposal: summary.id,
                digest: summary.new_digest,
                agent: agent.clone(),
                text,
                limit: Duration::from_millis(self.config.timeout_ms),
            }));
        }
        Ok(None)
    }

    /// Handles an answer: attaches the advice and, if the policy allows it, applies an approved
    /// proposal. Returns the events and notes.
    pub fn handle_answer(
        &self,
        snapshot: &Snapshot,
        task: &ReviewTask,
        answer: ReviewAnswer,
    ) -> LedgerOutcome {
        let (text, run_id) = match answer {
            Ok(answer) => answer,
            Err(reason) => {
                self.not_reviewed(&task.proposal, sanitize_line(&reason));
                return self.to_outcome(Vec::new(), None);
            }
        };
        let (advice, reason) = answer::parse_answer(&text);
        let agent_id = task.agent.clone();
        // The time is set when the advice is recorded.
        let recommendation = Recommendation { agent_id, advice, reason, run_id, at_ms: 0 };
        let mut events = Vec::new();
        let done = self.apply_policy(snapshot, task, &recommendation, &mut events);
        if let Err(error) = done {
            // The proposal was decided, changed or became stale during the review: a person has to
            // decide.
            self.not_reviewed(&task.proposal, error.to_string());
        }
        self.to_outcome(events, None)
    }

    fn apply_policy(
        &self,
        snapshot: &Snapshot,
        task: &ReviewTask,
        recommendation: &Recommendation,
        events: &mut Vec<LedgerEvent>,
    ) -> Result<(), LedgerError> {
        events.push(self.ledger.recommend(&task.proposal, task.digest, recommendation)?);
        let can_approve = self.config.policy == ReviewPolicy::AgentApproves;
        if !can_approve || recommendation.advice != ReviewAdvice::Approve {
            return Ok(());
        }
        // The advice is recorded above in any case, so that a person sees it if this fails.
        let applied =
            self.ledger.approve_for_agent(snapshot, &task.proposal, task.digest, recommendation)?;
        events.extend(applied.events);
        Ok(())
    }

    fn not_reviewed(&self, proposal: &str, reason: String) {
        self.ledger.note(LedgerNote::NotReviewed { proposal: proposal.to_owned(), reason });
    }

    fn to_outcome(&self, events: Vec<LedgerEvent>, trouble: Option<LedgerError>) -> LedgerOutcome {
        LedgerOutcome { events, notes: self.ledger.take_notes(), trouble }
    }
}
