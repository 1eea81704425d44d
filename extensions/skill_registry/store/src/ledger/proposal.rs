//! What a proposal is.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use skill_format::{Digest, Severity};

use crate::diff::{FuzzNote, MergeConflict};
use crate::ledger::event::LedgerEvent;

/// Tells which agent did something, from the context of its call and never from its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentAuthor {
    /// The agent.
    pub agent_id: String,
    /// The session it works in.
    pub session_id: String,
    /// The turn of that session.
    pub turn_id: String,
    /// Where the call came from, such as `agent` or `mcp`.
    pub origin: String,
}

impl AgentAuthor {
    /// Names the author in a sentence.
    #[must_use]
    pub fn name(&self) -> String {
        match (self.agent_id.as_str(), self.origin.as_str()) {
            ("", "operator") => "the operator".to_owned(),
            ("", "mcp") => "an MCP client".to_owned(),
            ("", _) => "an unknown agent".to_owned(),
            (id, _) => format!("agent `{id}`"),
        }
    }
}

/// Tells which person decided something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HumanActor {
    /// The user's name.
    pub name: String,
    /// How the decision was made: `cli`, `review`, `mcp`, or `agent` where settings let one approve.
    pub via: &'static str,
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
    /// Why the change is good.
    pub justification: String,
    /// What shows that it is: transcripts, results, links.
    #[serde(default)]
    pub evidence: Vec<String>,
}

/// What became of an agent's proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProposeOutcome {
    /// The proposal.
    pub proposal: ProposalSummary,
    /// Whether an identical one was open already and only its counter went up.
    pub merged: bool,
    /// The file a person can read it in.
    pub file: PathBuf,
    /// What to tell others.
    pub event: LedgerEvent,
    /// What was overlooked in the diff.
    pub fuzz: Vec<FuzzNote>,
    /// How the findings of the rules change.
    pub lint: LintDelta,
}

/// Where a proposal is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProposalState {
    /// It waits for a decision.
    Open,
    /// A person approved it; its file is being written.
    Approved,
    /// The file says what was proposed.
    Applied,
    /// A person turned it down.
    Rejected,
    /// The file is no longer what it was made for; it can be rebased.
    Stale,
    /// The file came to say the same in another way.
    Superseded,
    /// It was approved and could not be written; it can be rebased.
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

/// What a reviewer has to see before anything else of a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "flag", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReviewFlag {
    /// The new text or its reasons have characters that are not seen.
    HiddenUnicode {
        /// How many more than the text before.
        count: usize,
    },
    /// The new text has markup that models take for the program's own.
    PromptMarkup {
        /// The first such mark.
        found: String,
    },
    /// The file decides what agents are told of the skill or what it grants, and that changes.
    Frontmatter {
        /// The fields that change.
        fields: Vec<String>,
    },
    /// The file is a program.
    Code,
    /// The skill does not exist yet.
    NewSkill,
}

/// A proposal in a list.
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
    /// Where it is in its life.
    pub state: ProposalState,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: i64,
    /// Which agent made it.
    pub author: AgentAuthor,
    /// The first line of the justification.
    pub justification_line: String,
    /// The digest of the file it was made for; nothing if there was none.
    pub base_digest: Option<Digest>,
    /// The digest of the new text.
    pub new_digest: Digest,
    /// How many lines it adds.
    pub added: usize,
    /// How many lines it removes.
    pub removed: usize,
    /// How often it was made.
    pub count: u64,
    /// What a reviewer has to see first.
    pub flags: Vec<ReviewFlag>,
    /// What the reviewing agent advises about this very text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommendation: Option<Recommendation>,
}

/// What an agent advises about a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recommendation {
    /// The agent.
    pub agent_id: String,
    /// What it advises.
    pub advice: ReviewAdvice,
    /// Why, on one line.
    pub reason: String,
    /// Names the run in which it thought about it.
    pub run_id: String,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
}

/// What is advised about a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewAdvice {
    /// To apply it.
    Approve,
    /// To turn it down.
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

/// A proposal with everything that is known of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Proposal {
    /// What lists show.
    #[serde(flatten)]
    pub summary: ProposalSummary,
    /// Why the change is good, as its author says.
    pub justification: String,
    /// What the author has to show for it.
    pub evidence: Vec<String>,
    /// The change.
    pub diff: String,
    /// The text it was made for; nothing for a new file, or if it is lost.
    pub base_text: Option<String>,
    /// The new text; nothing if it was lost with the database and cannot be made again.
    pub new_text: Option<String>,
    /// Where the author's diff was not taken literally.
    pub fuzz: Vec<FuzzNote>,
    /// How the rules' findings change.
    pub lint: LintDelta,
    /// What the text costs a model before and after.
    pub tokens: (u32, u32),
    /// The decision, once there is one.
    pub decided: Option<ProposalDecision>,
    /// The version of the skill it became.
    pub version: Option<u64>,
    /// The file a person can read it in.
    pub file: PathBuf,
    /// Whether that file says what was written.
    pub file_state: ProposalFileState,
}

/// Compares a proposal's file with what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProposalFileState {
    /// It says what was written.
    AsWritten,
    /// Somebody edited it, which changes nothing.
    Edited,
    /// It is gone; it is written again at the next change.
    Missing,
}

/// A decision about a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProposalDecision {
    /// Who made it.
    pub by: String,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// Why.
    pub reason: Option<String>,
}

/// How the findings of the rules change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LintDelta {
    /// What was not found before.
    pub new: Vec<LintFinding>,
    /// What is no longer found.
    pub gone: Vec<LintFinding>,
}

/// A finding of a rule, kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LintFinding {
    /// The rule's id.
    pub rule: String,
    /// How bad it is.
    pub severity: Severity,
    /// The line, counted from 1; 0 is the file as a whole.
    pub line: u32,
    /// What was found.
    pub message: String,
}

/// Chooses proposals.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProposalFilter<'a> {
    /// Also those that are decided; without it only open, approved, stale and failed ones.
    pub all: bool,
    /// Only those of a skill.
    pub skill: Option<&'a str>,
    /// Only those in a state, whatever `all` says.
    pub state: Option<ProposalState>,
}

/// Says how the file has moved since a proposal was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "drift", rename_all = "snake_case")]
pub enum ProposalDrift {
    /// It is what the proposal was made for.
    Unchanged,
    /// It is something else.
    Moved {
        /// What it is now; nothing if the file is gone.
        current: Option<Digest>,
        /// Whether a rebase would succeed.
        mergeable: bool,
    },
    /// The skill is gone.
    Gone,
}

/// What rebasing came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RebaseOutcome {
    /// The proposal as it is now; unchanged if there are conflicts.
    pub proposal: Proposal,
    /// Where both changed the same lines.
    pub conflicts: Vec<MergeConflict>,
}

/// What approving or rolling back did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApplyOutcome {
    /// The skill.
    pub skill_id: String,
    /// The proposal that was applied, if it was one.
    pub proposal: Option<String>,
    /// The number of the version it made.
    pub version: u64,
    /// The digest of the tree now.
    pub tree: Digest,
    /// The files that were written or removed.
    pub files: Vec<String>,
    /// What to tell others.
    pub events: Vec<LedgerEvent>,
}
