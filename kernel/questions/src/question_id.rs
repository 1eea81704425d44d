//! The ids of questions, and the calls that they belong to.

use skillhost_tasks::Question;

/// The prefix of the call of a question that no later run can ask again.
const LIVE_CALL: &str = "live:";

/// Returns an id for a new question.
pub(crate) fn new_question_id() -> String {
    ulid::Ulid::generate().to_string().to_lowercase()
}

/// Returns the call of a question that ends with its run.
pub(crate) fn new_live_call() -> String {
    format!("{LIVE_CALL}{}", new_question_id())
}

/// Returns whether no later run can ask a question again.
#[must_use]
pub fn is_live_only(question: &Question) -> bool {
    question.call.starts_with(LIVE_CALL)
}
