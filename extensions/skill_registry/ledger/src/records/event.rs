//! Events that the ledger publishes.

use serde::{Deserialize, Serialize};
use skill_format::Digest;

use crate::records::version::VersionAuthor;

/// An event about a proposal or a skill's versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum LedgerEvent {
    /// An agent proposed a change.
    ProposalCreated(ProposalEvent),
    /// An agent recommended a decision about a proposal.
    ProposalRecommended(ProposalEvent),
    /// A person approved a proposal.
    ProposalApproved(ProposalEvent),
    /// A person rejected a proposal.
    ProposalRejected(ProposalEvent),
    /// The file is no longer the base of the proposal.
    ProposalStale(ProposalEvent),
    /// The file has the proposed text.
    ProposalApplied(ProposalEvent),
    /// A skill has a new version.
    VersionCreated(VersionEvent),
}

/// The payload of an event about a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionEvent {
    /// The skill.
    pub skill_id: String,
    /// The version's number.
    pub version: u64,
    /// The digest of its tree.
    pub tree: Digest,
    /// The author.
    pub author: VersionAuthor,
}

/// The payload of an event about a proposal.
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
    /// The agent's id or the user's name; empty if the change was detected on the disk.
    pub by: String,
    /// The number of the version in which it resulted.
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

    /// Returns the deduplication key of an event that can happen only once: several copies of the
    /// program may publish it, and a copy may publish it again after a restart.
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
            // A proposal can become stale again after every rebase, and advice can be repeated.
            Self::ProposalRecommended(_) | Self::ProposalStale(_) => None,
        }
    }

    /// Returns `true` if an agent created a proposal.
    #[must_use]
    pub fn is_proposal(&self) -> bool {
        matches!(self, Self::ProposalCreated(_))
    }

    /// Returns the id of the skill.
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
