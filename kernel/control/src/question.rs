//! Stored questions, as messages of a connection name them.

use serde::{Deserialize, Serialize};

/// A stored question and the bytes that are decided on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionReference {
    /// The id of the question.
    pub question: String,
    /// The digest of its subject, hexadecimal.
    pub digest: String,
}

/// The surface on which a client of the socket decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionSurface {
    /// A person at a terminal.
    Terminal,
    /// A program that is connected to the socket.
    #[default]
    #[serde(other)]
    Socket,
}

impl DecisionSurface {
    /// Returns the name, as questions store it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::Socket => "socket",
        }
    }
}

/// The end of a stored question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionClosure {
    /// The id of the question.
    pub question: String,
    /// The state: `decided`, `withdrawn` or `expired`; `open` where other bytes were decided on.
    pub state: String,
    /// The choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<String>,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who decided: `operator`, or the name of an MCP client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The surface of the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surface: Option<String>,
    /// The time of the end, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<u64>,
}

/// A decision on a stored question, sent to the kernel without a message connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionDecision {
    /// The id of the question.
    pub question: String,
    /// The digest of the subject that was shown.
    pub digest: String,
    /// The choice.
    pub choice: String,
    /// The reason, or the changed arguments of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
