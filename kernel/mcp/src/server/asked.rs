//! Questions that a client takes to its human between two requests: what was asked about, until the
//! answer comes.
//!
//! It stays here; the client carries a handle, which is worth one answer to the same call.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use skillhost_contract::payload::{ReviewOffer, ToolOutput};

/// Questions that are open at the same time; another one takes the place of the oldest.
const OPEN: usize = 256;

/// A hash of a tool's name and its arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct CallHash([u8; 32]);

impl CallHash {
    pub(super) fn new(tool: &str, arguments: &Map<String, Value>) -> Self {
        Self(Sha256::digest(json!([tool, arguments]).to_string()).into())
    }
}

/// What a question is about.
pub(super) struct PendingQuestion {
    /// The call that led to it.
    pub(super) call: CallHash,
    /// What is to be decided.
    pub(super) offer: ReviewOffer,
    /// What the call has answered.
    pub(super) output: ToolOutput,
}

/// A question with its handle.
struct QuestionEntry {
    handle: String,
    since: Instant,
    question: PendingQuestion,
}

/// The open questions, the oldest first.
#[derive(Default)]
pub(super) struct PendingQuestions(Mutex<VecDeque<QuestionEntry>>);

impl PendingQuestions {
    /// Keeps a question and gives its handle, which nobody can guess.
    pub(super) fn insert(&self, question: PendingQuestion) -> String {
        let handle = ulid::Ulid::generate().to_string();
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while open.len() >= OPEN {
            open.pop_front();
        }
        open.push_back(QuestionEntry { handle: handle.clone(), since: Instant::now(), question });
        handle
    }

    /// Gives back what was asked about, if it was asked in this call and not too long ago. After that
    /// it is not open any more.
    pub(super) fn take(
        &self,
        handle: &str,
        call: CallHash,
        within: Duration,
    ) -> Option<PendingQuestion> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|open| open.since.elapsed() <= within);
        // Another call does not close it.
        let at =
            open.iter().position(|open| open.handle == handle && open.question.call == call)?;
        open.remove(at).map(|open| open.question)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn question(tool: &str) -> PendingQuestion {
        let text = String::new;
        PendingQuestion {
            call: CallHash::new(tool, &Map::new()),
            offer: ReviewOffer { proposal: tool.to_owned(), digest: text(), text: text() },
            output: ToolOutput { text: text(), structured: None, is_error: false, skill: None },
        }
    }

    #[test]
    fn a_handle_is_worth_one_answer_to_the_same_call() {
        let asked = PendingQuestions::default();
        let handle = asked.insert(question("a"));
        let call = question("a").call;
        assert!(asked.take("", call, LONG).is_none());
        assert!(asked.take(&handle, question("b").call, LONG).is_none());
        let mut arguments = Map::new();
        arguments.insert("x".to_owned(), json!(1));
        assert!(asked.take(&handle, CallHash::new("a", &arguments), LONG).is_none());
        assert_eq!(asked.take(&handle, call, LONG).unwrap().offer.proposal, "a");
        assert!(asked.take(&handle, call, LONG).is_none());
    }

    #[test]
    fn a_question_does_not_stay_open_for_ever() {
        let asked = PendingQuestions::default();
        let handle = asked.insert(question("a"));
        assert!(asked.take(&handle, question("a").call, Duration::ZERO).is_none());
        assert!(asked.take(&handle, question("a").call, LONG).is_none());
        let first = asked.insert(question("a"));
        for _ in 0..OPEN {
            asked.insert(question("b"));
        }
        assert!(asked.take(&first, question("a").call, LONG).is_none());
        assert_eq!(asked.0.lock().unwrap().len(), OPEN);
    }
}
