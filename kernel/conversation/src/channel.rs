//! The channel of a run: events for its clients, and requests to them.

use async_trait::async_trait;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use crate::usage::TokenUsage;

/// A channel from a run to its client: a terminal, a program that reads JSON, another agent's run.
#[async_trait]
pub trait Channel: Send + Sync {
    /// Handles an event of the run. Must not block.
    fn on_event(&self, event: &RunEvent);

    /// Requests the approval of a tool call. A channel without a person returns
    /// [`ApprovalDecision::Refuse`]. The kernel treats a timeout as a rejection.
    async fn request_approval(&self, request: &ApprovalRequest) -> ApprovalDecision;

    /// Requests a secret that no one else can read: the input is not echoed, not stored in a
    /// history and not sent to a model. A channel without such a prompt, as the default, refuses.
    /// The kernel treats a timeout as a rejection.
    async fn request_secret(&self, prompt: &SecretPrompt) -> SecretReply {
        // The default never reads the prompt.
        let _ = prompt;
        SecretReply::Refused { reason: "no secret prompt is available".to_owned() }
    }
}

/// A secret requested by an agent, typed where no model can read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretPrompt {
    /// The agent that requests it.
    pub agent_id: String,
    /// The secret's name, as listed in a manifest.
    pub name: String,
    /// The extensions whose manifests list it, and which can read it from then on.
    pub extensions: Vec<String>,
    /// The purpose, as the model describes it.
    pub reason: String,
}

/// The reply to a [`SecretPrompt`]. Its value is never printed and cannot be serialized.
#[derive(Debug, Clone)]
pub enum SecretReply {
    /// The secret.
    Given(SecretString),
    /// The request was declined.
    Refused {
        /// The reason, for the model.
        reason: String,
    },
}

/// A tool call that waits for an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// The agent that makes the call.
    pub agent_id: String,
    /// The tool.
    pub tool: String,
    /// The extension that owns the tool.
    pub extension: String,
    /// The arguments, as JSON text written by the model.
    pub arguments: String,
    /// True if the call may destroy data.
    pub destructive: bool,
    /// True if an approval for the session is not offered: this tool, or this effect, requires one
    /// for every call.
    pub always: bool,
    /// Text about the call beyond its arguments, such as the files of an extension to be built, or
    /// the changes to extensions, agents, skills and settings. Untrusted: sanitize it before
    /// printing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
}

/// The decision on an [`ApprovalRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalDecision {
    /// Approved for this call.
    Once,
    /// Approved for this tool in this session; treated as [`ApprovalDecision::Once`] where every
    /// call requires an approval.
    Session,
    /// The arguments were changed. The kernel checks these and requests the approval of the changed
    /// call.
    Edited {
        /// The new arguments, as JSON text.
        arguments: String,
    },
    /// Not approved.
    Refuse {
        /// The reason, for the model.
        reason: String,
    },
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RunEvent {
    /// The next part of the reply's text.
    Text {
        /// The agent; a delegated run's events go through the channel of its parent run.
        agent_id: String,
        /// The part.
        text: String,
    },
    /// The text of the reply so far is discarded; the reply starts from its beginning.
    #[serde(rename = "restart")]
    ReplyRestarted {
        /// The agent.
        agent_id: String,
        /// The reason.
        reason: String,
    },
    /// A tool call has started.
    #[serde(rename = "tool_begun")]
    ToolStarted {
        /// The agent.
        agent_id: String,
        /// The tool.
        tool: String,
        /// The arguments, as JSON text.
        arguments: String,
    },
    /// A tool call has finished.
    #[serde(rename = "tool_ended")]
    ToolFinished {
        /// The agent.
        agent_id: String,
        /// The tool.
        tool: String,
        /// True if it failed; the model received the reason.
        is_error: bool,
        /// The first line of the result.
        summary: String,
    },
    /// A skill is active from now on.
    SkillActive {
        /// The agent.
        agent_id: String,
        /// The skill.
        skill_id: String,
        /// sha256 of the SKILL.md, hexadecimal.
        digest: String,
    },
    /// Older messages were replaced by a summary.
    Compacted {
        /// The agent.
        agent_id: String,
        /// The number of messages replaced.
        messages: usize,
        /// The estimated tokens before.
        before: u32,
        /// The estimated tokens after.
        after: u32,
    },
    /// A task was delegated to another agent.
    Delegated {
        /// The delegating agent.
        agent_id: String,
        /// The agent that receives the task.
        to: String,
        /// The task.
        task: String,
    },
    /// A model request has finished.
    #[serde(rename = "used")]
    UsageReported {
        /// The agent.
        agent_id: String,
        /// The model, `provider/model`.
        model: String,
        /// The usage of the request.
        usage: TokenUsage,
    },
    /// A note for the user, such as about a skipped context block.
    Note {
        /// The agent.
        agent_id: String,
        /// The text.
        text: String,
    },
}
