//! The ids of tasks and questions.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use ulid::{Generator, Ulid};

/// The source of new ids in this process.
static GENERATOR: Mutex<Generator> = Mutex::new(Generator::new());

/// The id of a question: a ULID in lower case.
pub type QuestionId = String;

/// The id of a task: a ULID in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(String);

impl TaskId {
    /// Generates a new id, higher than those that this process has generated before: the tasks of a
    /// lane are ordered by their ids, also within a millisecond and after the clock was set back.
    #[must_use]
    pub fn generate() -> Self {
        Self::from_ulid(generate_ulid())
    }

    /// Derives the id of a text and a time in milliseconds since 1970, always the same: a submitter
    /// that was restarted finds its task again.
    #[must_use]
    pub fn derive(at_ms: u64, text: &str) -> Self {
        let digest = skillhost_files::sha256_hex(text.as_bytes());
        // 128 bits, of which the id takes 80.
        let random = u128::from_str_radix(&digest[..32], 16).unwrap_or_default();
        Self::from_ulid(Ulid::from_parts(at_ms, random))
    }

    /// Parses an id; `None` if the text is not a ULID. Upper case is accepted.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Ulid::from_string(text).ok().map(|_| Self(text.to_lowercase()))
    }

    fn from_ulid(id: Ulid) -> Self {
        Self(id.to_string().to_lowercase())
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Generates the id of a new question, higher than those that this process has generated before: the
/// last question of a call is the one with the highest id.
#[must_use]
pub fn generate_question_id() -> QuestionId {
    generate_ulid().to_string().to_lowercase()
}

fn generate_ulid() -> Ulid {
    let mut generator = GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
    match generator.generate() {
        Ok(id) => id,
        Err(overflow) => overflow.commit_overflow_increment(),
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_ids_rise() {
        let ids: Vec<_> = (0..10_000).map(|_| TaskId::generate()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        let ids: Vec<_> = (0..10_000).map(|_| generate_question_id()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn derived_id_depends_on_text() {
        let id = TaskId::derive(1_700_000_000_000, "a");
        assert_eq!(id, TaskId::derive(1_700_000_000_000, "a"));
        assert_eq!(TaskId::parse(id.as_str()), Some(id.clone()));
        assert_ne!(id, TaskId::derive(1_700_000_000_000, "b"));
        assert!(id < TaskId::derive(1_700_000_000_001, "a"));
    }
}
