//! Pending questions, which a client shows to its user between two requests.
//!
//! The question stays on the server. The client receives a handle, which is valid for one answer
//! to the same tool call.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use skillhost_payload::{ReviewOffer, ToolOutput};
use skillhost_tasks::Question;

/// The limit of pending questions; a further one replaces the oldest.
const MAX_PENDING: usize = 256;

/// A hash of a tool name and its arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct CallHash([u8; 32]);

impl CallHash {
    pub(super) fn new(tool: &str, arguments: &Map<String, Value>) -> Self {
        Self(Sha256::digest(json!([tool, arguments]).to_string()).into())
    }
}

/// A question about a tool call.
pub(super) struct PendingQuestion {
    /// The tool call that led to the question.
    pub(super) call: CallHash,
    /// What it asks.
    pub(super) subject: PendingSubject,
}

/// The subject of a question.
pub(super) enum PendingSubject {
    /// The call has made a proposal.
    Review {
        /// The proposal to decide about.
        offer: ReviewOffer,
        /// The result of the tool call before the decision.
        output: ToolOutput,
    },
    /// The call requires an approval before it is made.
    Consent {
        /// The stored question.
        question: Box<Question>,
        /// The arguments of the call, with those that the user was asked for.
        arguments: Map<String, Value>,
    },
}

/// A pending question with its handle.
struct QuestionEntry {
    handle: String,
    since: Instant,
    question: PendingQuestion,
}

/// The pending questions, the oldest first.
#[derive(Default)]
pub(super) struct PendingQuestions(Mutex<VecDeque<QuestionEntry>>);

impl PendingQuestions {
    /// Stores a question and returns its unguessable handle.
    pub(super) fn insert(&self, question: PendingQuestion) -> String {
        let handle = ulid::Ulid::generate().to_string();
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while open.len() >= MAX_PENDING {
            open.pop_front();
        }
        open.push_back(QuestionEntry { handle: handle.clone(), since: Instant::now(), question });
        handle
    }

    /// Removes and returns a question of this call, or `None` if it is unknown or expired.
    pub(super) fn take(
        &self,
        handle: &str,
        call: CallHash,
        within: Duration,
    ) -> Option<PendingQuestion> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|open| open.since.elapsed() <= within);
        // A handle that is sent with another call leaves the question open, so that a client cannot
        // use up the question of another one.
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
            subject: PendingSubject::Review {
                offer: ReviewOffer { proposal: tool.to_owned(), digest: text(), text: text() },
                output: ToolOutput { text: text(), ..ToolOutput::default() },
            },
        }
    }

    #[test]
    fn handle_accepts_one_answer() {
        let pending = PendingQuestions::default();
        let handle = pending.insert(question("a"));
        let call = question("a").call;
        assert!(pending.take("", call, LONG).is_none());
        assert!(pending.take(&handle, question("b").call, LONG).is_none());
        let mut arguments = Map::new();
        arguments.insert("x".to_owned(), json!(1));
        assert!(pending.take(&handle, CallHash::new("a", &arguments), LONG).is_none());
        let taken = pending.take(&handle, call, LONG).unwrap().subject;
        assert!(matches!(taken, PendingSubject::Review { offer, .. } if offer.proposal == "a"));
        assert!(pending.take(&handle, call, LONG).is_none());
    }

    #[test]
    fn pending_question_expires() {
        let pending = PendingQuestions::default();
        let handle = pending.insert(question("a"));
        assert!(pending.take(&handle, question("a").call, Duration::ZERO).is_none());
        assert!(pending.take(&handle, question("a").call, LONG).is_none());
        let first = pending.insert(question("a"));
        for _ in 0..MAX_PENDING {
            pending.insert(question("b"));
        }
        assert!(pending.take(&first, question("a").call, LONG).is_none());
        assert_eq!(pending.0.lock().unwrap().len(), MAX_PENDING);
    }
}
