//! What others are told.

use serde::{Deserialize, Serialize};
use skill_format::Digest;

use crate::ledger::version::VersionAuthor;

/// Something that happened to a proposal or to a skill's versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum LedgerEvent {
    /// An agent proposed a change.
    ProposalCreated(ProposalEvent),
    /// An agent advises what to do with one.
    ProposalRecommended(ProposalEvent),
    /// A person approved one.
    ProposalApproved(ProposalEvent),
    /// A person turned one down.
    ProposalRejected(ProposalEvent),
    /// The file is no longer what the proposal was made for.
    ProposalStale(ProposalEvent),
    /// The file says what was proposed.
    ProposalApplied(ProposalEvent),
    /// A skill has another version.
    VersionCreated(VersionEvent),
}

/// What is told of a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionEvent {
    /// The skill.
    pub skill_id: String,
    /// The version's number.
    pub version: u64,
    /// The digest of its tree.
    pub tree: Digest,
    /// Who made it.
    pub author: VersionAuthor,
}

/// What is told of a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposalEvent {
    /// The proposal.
    pub proposal: String,
    /// The skill.
    pub skill_id: String,
    /// The file.
    pub path: String,
    /// The digest of the new text.
    pub new_digest: Digest,
    /// Who did it: an agent's id, a user's name, or nobody where the disk did.
    pub by: String,
    /// The version it became.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

impl LedgerEvent {
    /// Returns the event's topic.
    #[must_use]
    pub fn topic(&self) -> &'static str {
        match self {
            Self::ProposalCreated(_) => "skill.proposal.created",
            Self::ProposalRecommended(_) => "skill.proposal.recommended",
            Self::ProposalApproved(_) => "skill.proposal.approved",
            Self::ProposalRejected(_) => "skill.proposal.rejected",
            Self::ProposalStale(_) => "skill.proposal.stale",
            Self::ProposalApplied(_) => "skill.proposal.applied",
            Self::VersionCreated(_) => "skill.version.created",
        }
    }

    /// Names what happened, where it can happen once only: several copies of the program may tell of
    /// it, and one of them may tell again what it told before it ended.
    #[must_use]
    pub fn key(&self) -> Option<String> {
        match self {
            Self::ProposalCreated(event) | Self::ProposalRejected(event) => {
                Some(event.proposal.clone())
            }
            Self::ProposalApproved(event) | Self::ProposalApplied(event) => {
                Some(format!("{}@{}", event.proposal, event.new_digest))
            }
            Self::VersionCreated(event) => Some(format!("{}@{}", event.skill_id, event.version)),
            // It may be made current, and become stale, again and again; advice may be repeated.
            Self::ProposalRecommended(_) | Self::ProposalStale(_) => None,
        }
    }

    /// Tells whether an agent has proposed something.
    #[must_use]
    pub fn is_proposal(&self) -> bool {
        matches!(self, Self::ProposalCreated(_))
    }

    /// Returns the skill it is about.
    #[must_use]
    pub fn skill_id(&self) -> &str {
        match self {
            Self::ProposalCreated(event)
            | Self::ProposalRecommended(event)
            | Self::ProposalApproved(event)
            | Self::ProposalRejected(event)
            | Self::ProposalStale(event)
            | Self::ProposalApplied(event) => &event.skill_id,
            Self::VersionCreated(event) => &event.skill_id,
        }
    }
}
