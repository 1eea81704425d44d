//! The ids of tasks and questions.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The id of a question: a ULID in lower case.
pub type QuestionId = String;

/// The id of a task: a ULID in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(String);

impl TaskId {
    /// Generates a new id.
    #[must_use]
    pub fn generate() -> Self {
        Self(ulid::Ulid::generate().to_string().to_lowercase())
    }

    /// Parses an id; `None` if the text is not a ULID. Upper case is accepted.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        ulid::Ulid::from_string(text).ok().map(|_| Self(text.to_lowercase()))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
