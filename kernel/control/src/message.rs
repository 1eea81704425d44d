//! Messages of a connection that belongs to one user message.

use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use skillhost_conversation::{
    ApprovalDecision, ApprovalRequest, PersonQuestion, PersonReply, RunEvent, RunOutcome,
    SecretPrompt, SecretReply, UncertainCall, UncertainDecision,
};
use skillhost_payload::{CallError, ChannelPeer, Workspace};

use crate::question::{DecisionSurface, QuestionClosure, QuestionReference};

/// A user message for a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserMessage {
    /// The id of the message. A client that sends it again after a broken connection keeps the id,
    /// and the message is processed once.
    pub message_id: String,
    /// The thread's id; the thread must exist.
    pub thread: String,
    /// The agent of the thread.
    pub agent: String,
    /// The message text.
    pub text: String,
    /// The model, `provider/model`; overrides settings and manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The operator's workspaces for this message, besides those of the kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workspaces: Vec<Workspace>,
    /// The person who wrote it in a channel. Only the kernel sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<Box<ChannelOrigin>>,
}

/// The origin of a user message that a channel received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelOrigin {
    /// The channel.
    pub channel: String,
    /// The person; the name is untrusted.
    pub peer: ChannelPeer,
    /// The role of the person.
    pub role: ChannelRole,
    /// Whether several people can write and read in the conversation.
    #[serde(default)]
    pub is_group: bool,
}

/// The role of a person on a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChannelRole {
    /// Decides about questions of the channel's conversations.
    Owner,
    /// Only talks to the agents that are listed for guests.
    Guest,
}

impl ChannelRole {
    /// Returns the name, as stored and printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Guest => "guest",
        }
    }
}

/// A message from the kernel to a client. [`ServerMessage::Done`], [`ServerMessage::Failed`] and
/// [`ServerMessage::ShuttingDown`] end the connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerMessage {
    /// The user message of this connection; always the first line.
    #[serde(rename = "hears")]
    Accepted(UserMessage),
    /// An event of the run.
    RunEvent(RunEvent),
    /// A tool call requires approval.
    #[serde(rename = "ask")]
    ApprovalRequested {
        /// The id of the request.
        id: u64,
        /// The request.
        request: ApprovalRequest,
        /// The stored question; an answer names its digest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<QuestionReference>,
    },
    /// A secret is requested.
    #[serde(rename = "ask_secret")]
    SecretRequested {
        /// The id of the request.
        id: u64,
        /// The request.
        request: SecretPrompt,
    },
    /// A call may have happened and needs a decision.
    #[serde(rename = "ask_uncertain")]
    UncertainCall {
        /// The id of the request.
        id: u64,
        /// The request.
        request: UncertainCall,
        /// The stored question; an answer names its digest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<QuestionReference>,
    },
    /// An agent asks a question.
    #[serde(rename = "ask_person")]
    PersonQuestion {
        /// The id of the request.
        id: u64,
        /// The request.
        request: PersonQuestion,
        /// The stored question; an answer names its digest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<QuestionReference>,
    },
    /// A request no longer needs an answer.
    #[serde(rename = "given_up")]
    QuestionWithdrawn {
        /// The id of the request.
        id: u64,
        /// The end of the stored question, if it is no longer open.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        closure: Option<QuestionClosure>,
        /// The answer of this client did not count: another surface was first, or the client answered
        /// about other bytes.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_rejected: bool,
    },
    /// The kernel shuts down. The message is stored, and the next kernel resumes its run.
    #[serde(rename = "ending")]
    ShuttingDown {
        /// True if the next kernel starts at once.
        again: bool,
    },
    /// The message was answered.
    Done(RunOutcome),
    /// The message will not be answered.
    Failed(MessageError),
}

/// The cause that ended the processing of a message; the wire name is in snake case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageFailure {
    /// The agent is unknown or unusable.
    Agent,
    /// The model failed.
    Model,
    /// A limit of the run was reached.
    Budget,
    /// The run repeated itself.
    Loop,
    /// The run was cancelled.
    Cancelled,
    /// The kernel restarts.
    Restarting,
    /// The run waits for a decision.
    Parked,
    /// A newer run took over the thread.
    #[serde(rename = "left_behind")]
    Superseded,
    /// The model gave no reply.
    #[serde(rename = "nothing_said")]
    EmptyReply,
    /// The messages exceed the context of the model.
    #[serde(rename = "overflow")]
    ContextOverflow,
    /// The thread could not be read or written.
    Thread,
    /// The request is not valid.
    Request,
    /// The delivery failed too often.
    Dead,
    /// A cause that is unknown to this build.
    #[serde(other)]
    Other,
}

/// An error that ended the processing of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageError {
    /// The cause.
    pub what: MessageFailure,
    /// The error.
    #[serde(flatten)]
    pub error: CallError,
}

/// A message from a client to the kernel.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientMessage {
    /// The answer to [`ServerMessage::ApprovalRequested`].
    Answer {
        /// The id of the request.
        id: u64,
        /// The decision.
        decision: ApprovalDecision,
        /// The digest of the question that was shown; without it, the one of the request's line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
        /// The surface; `socket` without it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        surface: Option<DecisionSurface>,
    },
    /// The answer to [`ServerMessage::SecretRequested`].
    Secret {
        /// The id of the request.
        id: u64,
        /// The secret.
        value: String,
    },
    /// The rejection of [`ServerMessage::SecretRequested`].
    #[serde(rename = "no_secret")]
    SecretDeclined {
        /// The id of the request.
        id: u64,
        /// The reason.
        reason: String,
    },
    /// The answer to [`ServerMessage::UncertainCall`].
    #[serde(rename = "uncertain")]
    UncertainDecided {
        /// The id of the request.
        id: u64,
        /// The decision.
        decision: UncertainDecision,
        /// The digest of the question that was shown; without it, the one of the request's line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
        /// The surface; `socket` without it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        surface: Option<DecisionSurface>,
    },
    /// The answer to [`ServerMessage::PersonQuestion`].
    #[serde(rename = "person")]
    PersonReplied {
        /// The id of the request.
        id: u64,
        /// The reply.
        reply: PersonReply,
        /// The digest of the question that was shown; without it, the one of the request's line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
        /// The surface; `socket` without it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        surface: Option<DecisionSurface>,
    },
    /// A request to cancel the run.
    Cancel,
}

impl ClientMessage {
    /// Converts the reply to a [`ServerMessage::SecretRequested`].
    #[must_use]
    pub fn from_secret_reply(id: u64, reply: SecretReply) -> Self {
        match reply {
            SecretReply::Given(value) => {
                Self::Secret { id, value: value.expose_secret().to_owned() }
            }
            SecretReply::Refused { reason } => Self::SecretDeclined { id, reason },
        }
    }
}
