//! Proposals and the types of their requests, states and outcomes.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use skill_catalog::AgentAuthor;
use skill_diff::{FuzzNote, MergeConflict};
use skill_format::{Digest, Severity};

use crate::records::acceptance::AcceptanceEvidence;
use crate::records::error::LedgerError;
use crate::records::event::{LedgerEvent, ProposalEvent};
use crate::records::model_evidence::ModelEvidence;

/// The person that made a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HumanActor {
    /// The user's name.
    pub name: String,
    /// The way of the decision: `cli`, `review`, `console`, `mcp`, the name of a channel, or `agent`
    /// where the settings allow it.
    pub via: String,
}

/// The arguments of `propose_skill_update`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProposeRequest {
    /// The skill to change; an id that does not exist yet proposes a new skill.
    pub skill_id: String,
    /// The file to change, relative to the skill's directory; SKILL.md if it is not given.
    #[serde(default)]
    pub path: Option<String>,
    /// A unified diff against the file as it is now.
    #[serde(default)]
    pub diff: Option<String>,
    /// The whole new text, instead of a diff.
    #[serde(default)]
    pub new_content: Option<String>,
    /// The reason for the change.
    pub justification: String,
    /// The evidence: transcripts, results, links.
    #[serde(default)]
    pub evidence: Vec<String>,
}

/// The result of a proposal call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProposeOutcome {
    /// The proposal.
    pub proposal: ProposalSummary,
    /// `true` if an identical proposal was already open and only its counter was incremented.
    pub merged: bool,
    /// The file with the proposal for people.
    pub file: PathBuf,
    /// The event to publish.
    pub event: LedgerEvent,
    /// The deviations that were tolerated when the diff was applied.
    pub fuzz: Vec<FuzzNote>,
    /// The change of the rules' findings.
    pub lint: LintDelta,
}

/// The result of the checks of a change that is not recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeTrial {
    /// The warnings for a reviewer.
    pub flags: Vec<ReviewFlag>,
    /// The result of the check of changes.
    pub acceptance: Option<AcceptanceEvidence>,
    /// The error with which the check of changes would refuse it.
    pub objection: Option<LedgerError>,
}

/// The state of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProposalState {
    /// It waits for a decision.
    Open,
    /// A person approved it; its file is being written.
    Approved,
    /// The file has the proposed text.
    Applied,
    /// A person rejected it.
    Rejected,
    /// The file is no longer its base; it can be rebased.
    Stale,
    /// The file received the same text in another way.
    Superseded,
    /// It was approved but could not be written; it can be rebased.
    Failed,
}

impl ProposalState {
    /// Every state.
    pub const ALL: [Self; 7] = [
        Self::Open,
        Self::Approved,
        Self::Applied,
        Self::Rejected,
        Self::Stale,
        Self::Superseded,
        Self::Failed,
    ];

    /// Returns the state's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Approved => "approved",
            Self::Applied => "applied",
            Self::Rejected => "rejected",
            Self::Stale => "stale",
            Self::Superseded => "superseded",
            Self::Failed => "failed",
        }
    }

    /// Finds a state by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

impl fmt::Display for ProposalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A warning that a reviewer has to see first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "flag", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReviewFlag {
    /// The new text or its reasons contain invisible characters.
    HiddenUnicode {
        /// The number of such characters, less those of the text before.
        count: usize,
    },
    /// The new text has markup that models mistake for the program's own.
    PromptMarkup {
        /// The first such mark.
        found: String,
    },
    /// The frontmatter changes: it decides how the skill is presented to agents and which tools it
    /// grants.
    Frontmatter {
        /// The fields that change.
        fields: Vec<String>,
    },
    /// The file is a program.
    Code,
    /// The skill does not exist yet.
    NewSkill,
}

/// The part of a proposal that lists show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProposalSummary {
    /// Unique on all machines; sorts by time.
    pub id: String,
    /// Its number in this database, counted from 1.
    pub seq: u64,
    /// The skill.
    pub skill_id: String,
    /// The file, relative to the skill's directory.
    pub path: String,
    /// The state.
    pub state: ProposalState,
    /// The time of creation, in milliseconds since 1970.
    pub created_ms: i64,
    /// The agent that made it.
    pub author: AgentAuthor,
    /// The first line of the justification.
    pub justification_line: String,
    /// The digest of the base file; `None` for a new file.
    pub base_digest: Option<Digest>,
    /// The digest of the new text.
    pub new_digest: Digest,
    /// The number of added lines.
    pub added: usize,
    /// The number of removed lines.
    pub removed: usize,
    /// The number of times it was proposed.
    pub count: u64,
    /// The warnings for a reviewer.
    pub flags: Vec<ReviewFlag>,
    /// The advice of the reviewing agent about this very text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommendation: Option<Recommendation>,
    /// The result of the check of this very text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acceptance: Option<AcceptanceEvidence>,
    /// The result of runs with a model for this very text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_evidence: Option<ModelEvidence>,
}

impl ProposalSummary {
    /// Returns the digest of everything that a person approves: the new text, the result of its
    /// check, and that of runs with a model, where they exist.
    ///
    /// Without a result it is the digest of the new text; otherwise SHA-256 of that digest and of
    /// the results in JSON.
    #[must_use]
    pub fn review_digest(&self) -> Digest {
        // Structs of texts and numbers are always valid JSON.
        let checked =
            self.acceptance.as_ref().map(|it| serde_json::to_string(it).unwrap_or_default());
        let tested =
            self.model_evidence.as_ref().map(|it| serde_json::to_string(it).unwrap_or_default());
        if checked.is_none() && tested.is_none() {
            return self.new_digest;
        }
        // Neither result has a line break, so that no pair of them equals another one.
        let checked = checked.unwrap_or_default();
        let tested = tested.map(|tested| format!("\n{tested}")).unwrap_or_default();
        Digest::compute(format!("{}\n{checked}{tested}", self.new_digest).as_bytes())
    }
}

/// The advice of an agent about a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recommendation {
    /// The agent.
    pub agent_id: String,
    /// The advice.
    pub advice: ReviewAdvice,
    /// The reason, on one line.
    pub reason: String,
    /// The id of the run in which the agent reviewed the proposal.
    pub run_id: String,
    /// The time, in milliseconds since 1970.
    pub at_ms: i64,
}

/// The decision that an agent recommends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewAdvice {
    /// To apply it.
    Approve,
    /// To reject it.
    Reject,
    /// Neither.
    Unsure,
}

impl fmt::Display for ReviewAdvice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Unsure => "unsure",
        })
    }
}

/// A proposal with all of its data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Proposal {
    /// The part that lists show.
    #[serde(flatten)]
    pub summary: ProposalSummary,
    /// The author's reason for the change.
    pub justification: String,
    /// The author's evidence.
    pub evidence: Vec<String>,
    /// The change.
    pub diff: String,
    /// The base text; `None` for a new file, or if it is lost.
    pub base_text: Option<String>,
    /// The new text; `None` if it was lost with the database and cannot be restored.
    pub new_text: Option<String>,
    /// The deviations that were tolerated when the author's diff was applied.
    pub fuzz: Vec<FuzzNote>,
    /// The change of the rules' findings.
    pub lint: LintDelta,
    /// The number of tokens of the text before and after.
    pub tokens: (u32, u32),
    /// The decision, if one was made.
    pub decided: Option<ProposalDecision>,
    /// The number of the version in which it resulted.
    pub version: Option<u64>,
    /// The file with the proposal for people.
    pub file: PathBuf,
    /// The state of that file.
    pub file_state: ProposalFileState,
}

impl Proposal {
    /// Creates the payload of an event about the proposal that `by` caused.
    pub(crate) fn to_event(&self, by: &str) -> ProposalEvent {
        let summary = &self.summary;
        ProposalEvent {
            proposal: summary.id.clone(),
            skill_id: summary.skill_id.clone(),
            path: summary.path.clone(),
            new_digest: summary.new_digest,
            by: by.to_owned(),
            version: self.version,
        }
    }
}

/// Returns the first line of a text, for lists.
pub(crate) fn first_line(text: &str) -> String {
    text.trim().lines().next().unwrap_or_default().to_owned()
}

/// The state of a proposal's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProposalFileState {
    /// It has the content that was written.
    AsWritten,
    /// It was edited by hand, which has no effect.
    Edited,
    /// It is missing and is written again at the next change.
    Missing,
}

/// A decision about a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProposalDecision {
    /// The user's name or the agent's id.
    pub by: String,
    /// The time, in milliseconds since 1970.
    pub at_ms: i64,
    /// The reason.
    pub reason: Option<String>,
}

/// The change of the rules' findings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LintDelta {
    /// Findings that were not there before.
    pub new: Vec<LintFinding>,
    /// Findings that are no longer there.
    pub gone: Vec<LintFinding>,
}

/// A stored finding of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LintFinding {
    /// The rule's id.
    pub rule: String,
    /// The severity.
    pub severity: Severity,
    /// The line, counted from 1; 0 for the file as a unit.
    pub line: u32,
    /// The message.
    pub message: String,
}

/// A filter for lists of proposals.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProposalFilter<'a> {
    /// Includes decided ones; otherwise only open, approved, stale and failed ones.
    pub all: bool,
    /// Only those of this skill.
    pub skill: Option<&'a str>,
    /// Only those in this state, regardless of `all`.
    pub state: Option<ProposalState>,
}

/// The change of a file since a proposal was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "drift", rename_all = "snake_case")]
pub enum ProposalDrift {
    /// It still is the proposal's base.
    Unchanged,
    /// It has another content.
    Moved {
        /// The current digest; `None` if the file is missing.
        current: Option<Digest>,
        /// `true` if a rebase would succeed.
        mergeable: bool,
    },
    /// The skill no longer exists.
    Gone,
}

/// The result of a rebase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RebaseOutcome {
    /// The proposal as it is now; unchanged if there are conflicts.
    pub proposal: Proposal,
    /// The lines that both changed.
    pub conflicts: Vec<MergeConflict>,
}

/// The result of an approval or a rollback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApplyOutcome {
    /// The skill.
    pub skill_id: String,
    /// The proposal that was applied; `None` for a rollback.
    pub proposal: Option<String>,
    /// The number of the new version.
    pub version: u64,
    /// The digest of the current tree.
    pub tree: Digest,
    /// The files that were written or removed.
    pub files: Vec<String>,
    /// The events to publish.
    pub events: Vec<LedgerEvent>,
}
