//! Proposals that a client's human decides about, where the settings allow it.

use serde::{Deserialize, Serialize};

use super::CallContext;

/// Asks for a proposal as a person is to see it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReviewRequest {
    /// Whose client asks.
    pub context: CallContext,
    /// The proposal.
    pub proposal: String,
}

/// A proposal as a person is to see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewOffer {
    /// The proposal.
    pub proposal: String,
    /// The digest of what it proposes, hexadecimal.
    pub digest: String,
    /// All of it: what changes, and why.
    pub text: String,
}

/// What a person decided, as their client says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReviewDecision {
    /// Whose client it was.
    pub context: CallContext,
    /// The proposal.
    pub proposal: String,
    /// The digest of what the person saw.
    pub digest: String,
    /// Whether it is to be applied.
    pub approve: bool,
    /// Why.
    pub reason: String,
}
