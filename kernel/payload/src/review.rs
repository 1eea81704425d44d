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
    /// The surface of an operator's decision, such as `console`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surface: Option<String>,
    /// The person who decided on a channel, which is then the surface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A request for the proposals that wait for a decision.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ReviewListRequest {
    /// Further proposals, in whichever state they are; unknown ones are skipped.
    pub known: Vec<String>,
}

/// A proposal as a question to people, or the way in which it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewQuestion {
    /// The proposal.
    pub proposal: String,
    /// The agent that made it.
    pub asker: String,
    /// A line for lists.
    pub title: String,
    /// A JSON object with all that is decided on, among it the digest of the proposed content.
    pub subject: String,
    /// `false` if it can only be rejected; the subject has the reason.
    pub can_approve: bool,
    /// The end of the proposal, if it does not wait any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ReviewOutcome>,
}

/// The end of a proposal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewOutcome {
    /// The decision; `None` if it ended without one.
    pub approved: Option<bool>,
    /// The deciding person or agent.
    pub by: String,
    /// The way of the decision.
    pub via: String,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
