//! Questions to people, each decided once.

use serde::{Deserialize, Serialize};

use crate::ids::{QuestionId, TaskId};

/// The kind of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// The approval of a tool call: `approve`, `refuse`.
    Consent,
    /// Whether a call that was cut off happened: `happened`, `again`, `stop`.
    Uncertain,
    /// A question of an agent; any text, or one of the options.
    Choice,
    /// A proposed change of a skill: `approve`, `refuse`.
    Proposal,
    /// The installation of an extension: `approve`, `refuse`.
    Build,
}

impl QuestionKind {
    /// Returns the name, as in JSON and in the store.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Consent => "consent",
            Self::Uncertain => "uncertain",
            Self::Choice => "choice",
            Self::Proposal => "proposal",
            Self::Build => "build",
        }
    }
}

/// The state of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionState {
    /// It waits for a decision.
    Open,
    /// It was decided.
    Decided,
    /// Its subject no longer exists: the asker does not wait any more.
    Withdrawn,
    /// It was open for too long, which counts as a refusal.
    Expired,
}

/// A person or program that decides, and how it is named to the others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decider {
    /// The role: `operator`, or the name of an MCP client.
    pub name: String,
    /// The surface of the decision: `terminal`, `console`, `socket`, `mcp`.
    pub surface: String,
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The id.
    pub id: QuestionId,
    /// The task that waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The thread whose run waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The kind.
    pub kind: QuestionKind,
    /// The agent or extension that asks.
    pub asker: String,
    /// The identity of the question within its task or thread, such as the key of a call.
    pub call: String,
    /// A line for lists, untrusted.
    pub title: String,
    /// The bytes that are decided on, a JSON object; every surface is drawn from them.
    pub subject: String,
    /// sha256 of the subject, hexadecimal.
    pub digest: String,
    /// The permitted choices; empty permits any text.
    pub options: Vec<String>,
    /// The state.
    pub state: QuestionState,
    /// The choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<String>,
    /// The reason, or the changed arguments of an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decider: Option<Decider>,
    /// The time it was asked, in milliseconds since 1970.
    pub opened_ms: u64,
    /// The time it ceased to be open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_ms: Option<u64>,
}

/// A question to ask. Asked again with the same task or thread, call and subject, the existing one
/// is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewQuestion {
    /// The id, if it is new.
    pub id: QuestionId,
    /// The thread whose run waits for it, for a question without a task.
    pub thread: Option<String>,
    /// The kind.
    pub kind: QuestionKind,
    /// The agent or extension that asks.
    pub asker: String,
    /// The identity of the question within its task or thread.
    pub call: String,
    /// A line for lists, untrusted.
    pub title: String,
    /// The bytes that are decided on, a JSON object of at most 4 MiB.
    pub subject: String,
    /// The permitted choices; empty permits any text.
    pub options: Vec<String>,
}

/// The size limit of a subject, in bytes.
pub(crate) const MAX_SUBJECT_BYTES: usize = 4 << 20;

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The question.
    pub question: QuestionId,
    /// The digest of the subject that was shown.
    pub digest: String,
    /// The choice.
    pub choice: String,
    /// The reason, or the changed arguments of an approval.
    pub reason: Option<String>,
    /// Who decides.
    pub decider: Decider,
}

/// The result of a decision. Only the first variant changed something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum DecisionOutcome {
    /// This decision counts.
    Decided {
        /// The question with the decision.
        question: Question,
    },
    /// It was not open; the question has who decided, where and when.
    Closed {
        /// The question as it is.
        question: Question,
    },
    /// The subject differs from the one that was shown.
    DigestMismatch {
        /// The question as it is.
        question: Question,
    },
}

/// Returns the digest of a subject: its sha256, hexadecimal.
#[must_use]
pub(crate) fn subject_digest(subject: &str) -> String {
    skillhost_files::sha256_hex(subject.as_bytes())
}
