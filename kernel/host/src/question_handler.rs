//! The handler of decisions: it continues the runs that wait for them.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use skillhost_events::{Delivery, StoredEvent};
use skillhost_payload::CallError;
use skillhost_questions::{QuestionTable, is_live_only, message_of_question};
use skillhost_tasks::QuestionState;

use crate::bus::{BuiltinHandler, HandlerOutcome};
use crate::user_message::UserMessageHandler;

/// The topic of the event about a question that is no longer open.
const QUESTION_CLOSED: &str = "question.closed";

/// The part of the event that identifies the question.
#[derive(Deserialize)]
struct ClosedQuestion {
    question: String,
    thread: Option<String>,
    task: Option<String>,
}

/// The event handler that continues parked runs.
pub(crate) struct QuestionHandler {
    questions: Arc<QuestionTable>,
    messages: Arc<UserMessageHandler>,
}

impl QuestionHandler {
    pub(crate) fn new(questions: Arc<QuestionTable>, messages: Arc<UserMessageHandler>) -> Self {
        Self { questions, messages }
    }

    /// Returns the user message whose run waits for the question, if it does so outside of this
    /// process's running ones.
    async fn find_parked_message(
        &self,
        closed: &ClosedQuestion,
    ) -> Result<Option<String>, CallError> {
        let ClosedQuestion { question, thread, task } = closed;
        // A task is woken in the store.
        let (None, Some(thread)) = (task, thread) else { return Ok(None) };
        if self.questions.take_answered(question) {
            return Ok(None);
        }
        // A row may be removed before its event is handled.
        let Some(question) = self.questions.find(question).await? else { return Ok(None) };
        let Some(message) = message_of_question(&question) else { return Ok(None) };
        // Its call has ended with the run that asked.
        if is_live_only(&question) {
            return Ok(None);
        }
        if question.state == QuestionState::Withdrawn {
            // The run has asked anew about other bytes of the same call.
            let open = self.questions.list_open(thread).await?;
            let is_same = |id: Option<String>| id.as_deref() == Some(message.as_str());
            if open.iter().any(|other| is_same(message_of_question(other))) {
                return Ok(None);
            }
        }
        Ok(Some(message))
    }
}

#[async_trait]
impl BuiltinHandler for QuestionHandler {
    fn topic(&self) -> &str {
        QUESTION_CLOSED
    }

    /// Returns the thread, or the question itself: a run may take long, and others do not wait.
    fn ordering_key(&self, event: &StoredEvent) -> Option<String> {
        let closed: ClosedQuestion = serde_json::from_str(event.payload.get()).ok()?;
        Some(closed.thread.unwrap_or(closed.question))
    }

    async fn handle(&self, delivery: &Delivery) -> HandlerOutcome {
        let closed = match serde_json::from_str(delivery.event.payload.get()) {
            Ok(closed) => closed,
            Err(error) => return HandlerOutcome::Failed(CallError::protocol_error(&error)),
        };
        match self.find_parked_message(&closed).await {
            Ok(None) => HandlerOutcome::Done,
            Ok(Some(message)) => self.messages.continue_message(&message).await,
            Err(error) => HandlerOutcome::Failed(error),
        }
    }
}
