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
    /// [`ApprovalDecision::Refuse`]. The kernel treats a timeout as a rejection, except for a channel
    /// that [can park](Channel::can_park).
    async fn request_approval(&self, request: &ApprovalRequest) -> ApprovalDecision;

    /// Requests a secret that no one else can read: the input is not echoed, not stored in a
    /// history and not sent to a model. A channel without such a prompt, as the default, refuses.
    /// The kernel treats a timeout as a rejection.
    async fn request_secret(&self, prompt: &SecretPrompt) -> SecretReply {
        // The default never reads the prompt.
        let _ = prompt;
        SecretReply::Refused { reason: "no secret prompt is available".to_owned() }
    }

    /// Returns whether the channel keeps requests without an answer: it may then return `Parked`
    /// where a request says [`ApprovalRequest::can_park`], and it alone limits the wait for a person.
    ///
    /// `Parked` ends the run with the call open in its thread. The channel's owner starts the run
    /// again with the same message id; the run then makes an equal request, and continues with its
    /// decision. Where a request cannot be parked, the kernel treats `Parked` as a rejection.
    fn can_park(&self) -> bool {
        false
    }

    /// Requests a decision about a call that may have happened. A channel without a person, as the
    /// default, returns [`UncertainDecision::Stop`]; the kernel treats a timeout the same.
    async fn resolve_uncertain_call(&self, call: &UncertainCall) -> UncertainDecision {
        // The default never reads the call.
        let _ = call;
        UncertainDecision::Stop
    }

    /// Asks a question of an agent. A channel without a person, as the default, refuses. The kernel
    /// treats a timeout as a refusal.
    async fn ask_person(&self, question: &PersonQuestion) -> PersonReply {
        // The default never reads the question.
        let _ = question;
        PersonReply::Refused { reason: "no person is available".to_owned() }
    }
}

/// A tool call that was interrupted and may have happened, or the repetition of such a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UncertainCall {
    /// The agent that makes the call.
    pub agent_id: String,
    /// The tool.
    pub tool: String,
    /// The extension that owns the tool.
    pub extension: String,
    /// The arguments, as JSON text.
    pub arguments: String,
    /// The key of the call, the same at every attempt of it.
    pub call_key: String,
    /// The number of attempts of the call that have started; 0 where the model repeats an earlier,
    /// identical call in a new one.
    pub attempts: u32,
    /// sha256 of the extension's files as approved, if known; hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extension_sha256: Option<String>,
    /// The channel may return [`UncertainDecision::Parked`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub can_park: bool,
}

/// The decision on an [`UncertainCall`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UncertainDecision {
    /// The call happened. It is not made again; the model learns that its result is not known.
    Happened,
    /// The call is made again, after the approval that its tool requires.
    Again,
    /// The call is not made again. The model receives an error which says that it may have happened,
    /// and replies; a later identical call asks again.
    Stop,
    /// The request waits for a decision; see [`Channel::can_park`].
    Parked,
}

/// A question of an agent to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonQuestion {
    /// The agent that asks.
    pub agent_id: String,
    /// The key of the call that asks; the same at every attempt of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_key: Option<String>,
    /// The question, as the model wrote it. Untrusted: sanitize it before printing.
    pub question: String,
    /// The offered answers; if there are none, any text is an answer. Untrusted as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The channel may return [`PersonReply::Parked`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub can_park: bool,
}

/// The reply to a [`PersonQuestion`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PersonReply {
    /// The answer.
    Answer(String),
    /// The question was not answered.
    Refused {
        /// The reason, for the model.
        reason: String,
    },
    /// The question waits for an answer; see [`Channel::can_park`].
    Parked,
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
    /// The key of the call, the same at every attempt of it; absent for a call that a tool makes in
    /// turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_key: Option<String>,
    /// The digest of the [`ToolEffect`](skillhost_payload::ToolEffect) that an approval covers, if
    /// it was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_digest: Option<String>,
    /// sha256 of the extension's files as approved, if known; hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extension_sha256: Option<String>,
    /// The channel may return [`ApprovalDecision::Parked`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub can_park: bool,
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
    /// The request waits for a decision; see [`Channel::can_park`].
    Parked,
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
