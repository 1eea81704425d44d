//! What whoever talks to an agent sees of a run, and is asked.

use async_trait::async_trait;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use crate::model::TokenUsage;

/// The other end of a run: a terminal, a program that reads JSON, another agent's run.
#[async_trait]
pub trait Channel: Send + Sync {
    /// Takes note of what happens. Must not block.
    fn on_event(&self, event: &RunEvent);

    /// Asks whether a tool may be called. Whoever cannot ask answers [`ApprovalDecision::Refuse`]. The
    /// kernel gives up after a time and takes that for a refusal.
    async fn request_approval(&self, request: &ApprovalRequest) -> ApprovalDecision;

    /// Asks for a secret in a way that nobody else reads: what is typed is not shown, kept in no
    /// history and told to no model. Whoever cannot ask like that, as is assumed, refuses. The
    /// kernel gives up after a time and takes that for a refusal.
    async fn request_secret(&self, ask: &SecretPrompt) -> SecretReply {
        let _ = ask;
        SecretReply::Refused {
            reason: "nobody is there who could be asked for a secret".to_owned(),
        }
    }
}

/// A secret that an agent asks for, to be typed where no model sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretPrompt {
    /// The agent that asks.
    pub agent_id: String,
    /// The secret's name, which a manifest lists.
    pub name: String,
    /// The extensions whose manifests list it: who may read it from then on.
    pub extensions: Vec<String>,
    /// What it is needed for, in the model's words.
    pub reason: String,
}

/// What somebody said to a [`SecretPrompt`]. It shows its value nowhere and cannot be serialised.
#[derive(Debug, Clone)]
pub enum SecretReply {
    /// Here it is.
    Given(SecretString),
    /// No.
    Refused {
        /// Why, for the model.
        reason: String,
    },
}

/// A call that waits for somebody's consent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// The agent that wants it.
    pub agent_id: String,
    /// The tool.
    pub tool: String,
    /// The extension it belongs to.
    pub extension: String,
    /// The arguments, JSON text as the model wrote it.
    pub arguments: String,
    /// It may destroy something.
    pub destructive: bool,
    /// A standing consent is not offered: this tool, or this effect, asks every time.
    pub always: bool,
    /// What the call is about where the arguments do not say it, such as the files of an extension
    /// that is to be built, or what it changes in extensions, agents, skills and settings. Written by whoever wrote those; to be sanitised where it is printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
}

/// What somebody said to an [`ApprovalRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalDecision {
    /// This once.
    Once,
    /// From now on in this session, for this tool; taken for [`ApprovalDecision::Once`] where it
    /// always asks.
    Session,
    /// No.
    Refuse {
        /// Why, for the model.
        reason: String,
    },
}

/// What happens in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RunEvent {
    /// More of the reply's text.
    Text {
        /// The agent; a delegated run's events come through the channel of the run that began it.
        agent_id: String,
        /// The piece.
        text: String,
    },
    /// The text of the reply so far is void; it comes again.
    #[serde(rename = "restart")]
    ReplyRestarted {
        /// The agent.
        agent_id: String,
        /// Why.
        reason: String,
    },
    /// A tool is called.
    #[serde(rename = "tool_begun")]
    ToolStarted {
        /// The agent.
        agent_id: String,
        /// The tool.
        tool: String,
        /// The arguments, JSON text.
        arguments: String,
    },
    /// A tool has answered.
    #[serde(rename = "tool_ended")]
    ToolFinished {
        /// The agent.
        agent_id: String,
        /// The tool.
        tool: String,
        /// It failed; the model was told why.
        is_error: bool,
        /// The first line of the answer.
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
        /// Messages that are gone.
        messages: usize,
        /// Estimated tokens before.
        before: u32,
        /// And after.
        after: u32,
    },
    /// A task was handed to another agent.
    Delegated {
        /// The agent that hands it on.
        agent_id: String,
        /// The agent that works on it.
        to: String,
        /// The task.
        task: String,
    },
    /// One model request is over.
    #[serde(rename = "used")]
    UsageReported {
        /// The agent.
        agent_id: String,
        /// The model, `provider/model`.
        model: String,
        /// What it used up.
        usage: TokenUsage,
    },
    /// Something a person should know, such as a context provider that was left out.
    Note {
        /// The agent.
        agent_id: String,
        /// The text.
        text: String,
    },
}
