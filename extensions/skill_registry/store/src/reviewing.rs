//! An agent that looks at proposals where the settings ask for one.
//!
//! It is asked outside of any call, one proposal after the other; whoever runs it does the asking and
//! hands the answer back. What comes out is advice that is attached to the proposal. Only where the
//! settings say so is its approval enough, and then for nothing that could widen what a skill may do.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use skill_format::{Digest, sanitize_line};

use crate::ledger::{
    Ledger, LedgerError, LedgerEvent, LedgerNote, LedgerOutcome, ProposalFilter, ProposalState,
    Recommendation, ReviewAdvice,
};
use crate::snapshot::Snapshot;

mod answer;
mod task;

/// Who decides about proposals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReviewConfig {
    /// How far an agent takes part.
    pub policy: ReviewPolicy,
    /// The agent that is asked.
    pub agent: String,
    /// Milliseconds it has for an answer.
    pub timeout_ms: u64,
}

/// How far an agent takes part in decisions about proposals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReviewPolicy {
    /// Not at all.
    #[default]
    Human,
    /// Its advice is attached to each proposal; a person decides.
    AgentRecommends,
    /// Its approval is enough, except for its own proposals, for skills that agents created or that
    /// lie in an untrusted root, and for whatever a reviewer is warned of.
    AgentApproves,
}

impl Default for ReviewConfig {
    fn default() -> Self {
        let agent = "reviewer_agent".to_owned();
        Self { policy: ReviewPolicy::default(), agent, timeout_ms: 300_000 }
    }
}

/// Says who decides, on one line.
impl fmt::Display for ReviewConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let agent = sanitize_line(&self.agent);
        match self.policy {
            ReviewPolicy::Human => f.write_str("human: people decide about proposals"),
            ReviewPolicy::AgentRecommends => {
                write!(f, "agent-recommends: the agent {agent} advises, people decide")
            }
            ReviewPolicy::AgentApproves => {
                write!(f, "agent-approves: what the agent {agent} approves is applied")
            }
        }
    }
}

/// What the agent is asked about one proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewTask {
    /// The proposal.
    pub proposal: String,
    /// The digest of the text it is about.
    pub digest: Digest,
    /// The agent.
    pub agent: String,
    /// The task, with everything the agent needs to know.
    pub text: String,
    /// How long it has.
    pub limit: Duration,
}

/// What the agent said, or why it said nothing.
pub type ReviewAnswer = Result<(String, RunId), String>;

/// Names the run in which an answer was made.
pub type RunId = String;

/// Finds the proposals an agent is to look at, and does with its answers what the settings say.
pub struct ProposalReviewer {
    config: ReviewConfig,
    ledger: Ledger,
    /// What it was asked in this process: nothing is asked twice.
    tried: Mutex<HashSet<(String, Digest)>>,
}

impl ProposalReviewer {
    /// Reviews the proposals of a ledger; opens nothing.
    #[must_use]
    pub fn new(config: ReviewConfig, ledger: &Ledger) -> Self {
        let ledger = ledger.with_wait(Duration::from_secs(10));
        Self { config, ledger, tried: Mutex::default() }
    }

    /// Returns the next proposal to ask about; where there is none, what was noticed.
    ///
    /// # Errors
    /// There is nothing to ask.
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

    /// Takes an answer: attaches the advice and, where the settings let the agent approve, applies
    /// what it approves. Says what happened.
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
        let recommendation = Recommendation { agent_id, advice, reason, run_id, at_ms: 0 };
        let mut events = Vec::new();
        let done = self.apply_policy(snapshot, task, &recommendation, &mut events);
        if let Err(error) = done {
            // It was decided, changed or went stale meanwhile: a person sees to it.
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
        let may = self.config.policy == ReviewPolicy::AgentApproves;
        if !may || recommendation.advice != ReviewAdvice::Approve {
            return Ok(());
        }
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
