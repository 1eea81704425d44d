//! Proposals that the user of an MCP client decides on, if the settings allow it.

use serde::{Deserialize, Serialize};

use crate::context::CallContext;

/// A request for a proposal in the form that is displayed to a person.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReviewRequest {
    /// The context of the client.
    pub context: CallContext,
    /// The proposal.
    pub proposal: String,
}

/// A proposal in the form that is displayed to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewOffer {
    /// The proposal.
    pub proposal: String,
    /// The digest of the proposed content, hexadecimal.
    // Comes back in `ReviewDecision`: a proposal that changed in between is not approved.
    pub digest: String,
    /// The complete proposal: its changes and its reason.
    pub text: String,
}

/// The decision of a person, as their client reports it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReviewDecision {
    /// The context of the client.
    pub context: CallContext,
    /// The proposal.
    pub proposal: String,
    /// The digest of the proposal that the person saw.
    pub digest: String,
    /// The decision: `true` applies the proposal.
    pub approve: bool,
    /// The reason.
    pub reason: String,
}
