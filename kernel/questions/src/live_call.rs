//! The calls of questions that no later run can ask again.

use skillhost_tasks::{Question, generate_question_id};

/// The prefix of these calls.
const LIVE_CALL: &str = "live:";

/// Returns the call of a question that ends with its run.
pub(crate) fn new_live_call() -> String {
    format!("{LIVE_CALL}{}", generate_question_id())
}

/// Returns whether no later run can ask a question again.
#[must_use]
pub fn is_live_only(question: &Question) -> bool {
    question.call.starts_with(LIVE_CALL)
}
