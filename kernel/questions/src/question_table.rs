//! The table of questions, as the runs of a kernel use it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skillhost_control::{QuestionClosure, QuestionDecision};
use skillhost_payload::{CallContext, CallError, ErrorKind, ReviewOffer};
use skillhost_tasks::{
    Decider, Decision, DecisionOutcome, NewQuestion, Question, QuestionKind, QuestionState,
    TaskQuery, TaskQueue,
};
use tokio::sync::Notify;

use crate::call_question::OPERATOR;
use crate::live_call::is_live_only;
use crate::review_mirror::{ReviewLedger, decide_offer, decide_review, mirror_reviews};

/// The interval at which a waiting run looks for decisions of other processes.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The limit of questions that are read at once.
const MAX_OPEN: usize = 10_000;

/// The questions of a kernel's interactive runs.
pub struct QuestionTable {
    queue: TaskQueue,
    /// Notified after each decision of this process, which then needs no poll.
    changed: Notify,
    /// The questions whose runs wait for them, or got their decisions while they waited.
    waiting: Mutex<HashMap<String, WaitState>>,
}

/// The state of a run's wait for a question.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitState {
    Waiting,
    Answered,
}

impl QuestionTable {
    /// Creates the table of a store.
    #[must_use]
    pub fn new(queue: TaskQueue) -> Self {
        Self { queue, changed: Notify::new(), waiting: Mutex::default() }
    }

    /// Stores a question, or returns the one that was asked before about the same bytes.
    ///
    /// # Errors
    /// The error of the store; the question must then not be shown.
    pub async fn ask(&self, question: NewQuestion) -> Result<Question, CallError> {
        Ok(self.queue.ask(question).await?)
    }

    /// Decides a question, once and for the bytes with the digest of the decision.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::InvalidArgument`] for a choice that is not an option, and
    /// the error of the store.
    pub async fn decide(&self, decision: Decision) -> Result<DecisionOutcome, CallError> {
        // The store refuses all but the first decision, of whichever process.
        let outcome = self.queue.decide(decision).await?;
        self.changed.notify_waiters();
        Ok(outcome)
    }

    /// Decides a question on behalf of a program at the socket, which acts as the operator.
    ///
    /// # Errors
    /// As for [`QuestionTable::decide`]; [`ErrorKind::Conflict`] for a question that is not open, or
    /// has other bytes.
    pub async fn decide_for_operator(
        &self,
        decision: QuestionDecision,
        surface: &str,
        reviews: &dyn ReviewLedger,
    ) -> Result<QuestionClosure, CallError> {
        let QuestionDecision { question, digest, choice, reason } = decision;
        let decider = Decider { name: OPERATOR.to_owned(), surface: surface.to_owned() };
        let kind = self.find(&question).await?.map(|question| question.kind);
        let decision = Decision { question, digest, choice, reason, decider };
        let outcome = match kind {
            // Its ledger decides, and the row follows.
            Some(QuestionKind::Proposal) => decide_review(&self.queue, reviews, decision).await?,
            _ => self.decide(decision).await?,
        };
        to_result(outcome)
    }

    /// Decides about the proposal of an offer on behalf of a client, whose context the ledger records.
    /// The decision is an approval and its reason. Returns `false` if the ledger lists no such
    /// proposal.
    ///
    /// # Errors
    /// As for [`decide_review`]; [`ErrorKind::Conflict`] with who decided before.
    pub async fn decide_offer(
        &self,
        ledger: &dyn ReviewLedger,
        context: CallContext,
        offer: &ReviewOffer,
        decision: (bool, &str),
    ) -> Result<bool, CallError> {
        let Some(outcome) = decide_offer(&self.queue, ledger, context, offer, decision).await?
        else {
            return Ok(false);
        };
        self.changed.notify_waiters();
        to_result(outcome).map(|_| true)
    }

    /// Makes the questions about proposals those of a ledger.
    ///
    /// # Errors
    /// As for [`mirror_reviews`].
    pub async fn mirror_reviews(&self, ledger: &dyn ReviewLedger) -> Result<(), CallError> {
        mirror_reviews(&self.queue, ledger).await
    }

    /// Finds a question.
    ///
    /// # Errors
    /// The error of the store.
    pub async fn find(&self, id: &str) -> Result<Option<Question>, CallError> {
        Ok(self.queue.question(id).await?)
    }

    /// Waits until a question is closed, on any surface.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], and the error of the store.
    pub async fn wait_until_closed(&self, id: &str) -> Result<Question, CallError> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Before the row is read: a decision in between ends the wait.
            changed.as_mut().enable();
            match self.queue.question(id).await? {
                Some(question) if question.state != QuestionState::Open => return Ok(question),
                Some(_) => {}
                None => {
                    let message = format!("question `{id}` not found");
                    return Err(CallError::new(ErrorKind::NotFound, message));
                }
            }
            // Both are hints: only the row says whether the question is closed.
            tokio::select! {
                () = changed => {}
                () = self.queue.store().wait_for_change(POLL_INTERVAL) => {}
            }
        }
    }

    /// Waits as [`QuestionTable::wait_until_closed`], at most for a time; `None` if the question is
    /// open at its end. A question that is closed later is then not [answered](Self::take_answered).
    ///
    /// # Errors
    /// As for [`QuestionTable::wait_until_closed`].
    pub async fn wait_at_most(
        &self,
        id: &str,
        limit: Duration,
    ) -> Result<Option<Question>, CallError> {
        self.lock_waiting().insert(id.to_owned(), WaitState::Waiting);
        let closed = match tokio::time::timeout(limit, self.wait_until_closed(id)).await {
            Ok(Ok(question)) => question,
            Ok(Err(error)) => {
                self.lock_waiting().remove(id);
                return Err(error);
            }
            Err(_) => {
                // In this order: of a decision at this moment, either this wait or the handler of
                // its event takes notice.
                self.lock_waiting().remove(id);
                match self.find(id).await? {
                    Some(question) if question.state != QuestionState::Open => question,
                    _ => return Ok(None),
                }
            }
        };
        // The event of the decision may arrive after the run has gone on.
        self.lock_waiting().insert(id.to_owned(), WaitState::Answered);
        Ok(Some(closed))
    }

    /// Returns whether a run of this process waits for a question, or got its decision by
    /// [`QuestionTable::wait_at_most`]; the latter is forgotten.
    #[must_use]
    pub fn take_answered(&self, id: &str) -> bool {
        let mut waiting = self.lock_waiting();
        match waiting.get(id) {
            Some(WaitState::Waiting) => true,
            // The event of a question is handled once, so the entry has served.
            Some(WaitState::Answered) => waiting.remove(id).is_some(),
            None => false,
        }
    }

    /// Withdraws a question whose asker does not wait any more.
    pub async fn withdraw(&self, id: &str, reason: &str) {
        if let Err(error) = self.queue.withdraw(id, reason).await {
            tracing::warn!(question = id, %error, "question could not be withdrawn");
        }
        self.changed.notify_waiters();
    }

    /// Lists the open questions of a thread's runs.
    ///
    /// # Errors
    /// The error of the store.
    pub async fn list_open(&self, thread: &str) -> Result<Vec<Question>, CallError> {
        let query = TaskQuery::Questions {
            state: Some(QuestionState::Open),
            kind: None,
            task: None,
            thread: Some(thread.to_owned()),
            limit: MAX_OPEN,
        };
        let mut questions = self.queue.questions(query).await?;
        questions.retain(|question| question.task.is_none());
        Ok(questions)
    }

    /// Stores a question as [`QuestionTable::ask`] for a run that waits for it, so that it never
    /// looks parked in between.
    ///
    /// # Errors
    /// As for [`QuestionTable::ask`].
    pub async fn ask_and_wait(&self, question: NewQuestion) -> Result<Question, CallError> {
        let id = question.id.clone();
        self.lock_waiting().insert(id.clone(), WaitState::Waiting);
        let asked = self.ask(question).await;
        // Another question was asked before about the same bytes, or none could be stored.
        if asked.as_ref().map_or(true, |stored| stored.id != id) {
            self.lock_waiting().remove(&id);
        }
        asked
    }

    /// Withdraws the questions that a killed kernel of this home left open and that no run can ask again. Only the
    /// kernel that delivers events may call this.
    ///
    /// # Errors
    /// The error of the store.
    pub async fn withdraw_leftovers(&self) -> Result<(), CallError> {
        let open = self.queue.own_questions(MAX_OPEN).await?;
        for question in open.iter().filter(|question| is_live_only(question)) {
            self.withdraw(&question.id, "the kernel ended").await;
        }
        Ok(())
    }

    fn lock_waiting(&self) -> MutexGuard<'_, HashMap<String, WaitState>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the end of a question that was decided; one that was decided before is a conflict.
fn to_result(outcome: DecisionOutcome) -> Result<QuestionClosure, CallError> {
    match outcome {
        DecisionOutcome::Decided { question } => Ok(to_closure(&question)),
        DecisionOutcome::Closed { question } => {
            Err(CallError::new(ErrorKind::Conflict, describe_closure(&to_closure(&question)))
                .with_hint("the first decision counts"))
        }
        DecisionOutcome::DigestMismatch { question } => {
            let message = format!(
                "question `{}` has the digest {}, not the one that was shown",
                question.id, question.digest
            );
            Err(CallError::new(ErrorKind::Conflict, message).with_hint("look at it again"))
        }
    }
}

/// Converts the end of a question for clients.
#[must_use]
pub fn to_closure(question: &Question) -> QuestionClosure {
    let state = match question.state {
        QuestionState::Open => "open",
        QuestionState::Decided => "decided",
        QuestionState::Withdrawn => "withdrawn",
        QuestionState::Expired => "expired",
    };
    let decider = question.decider.as_ref();
    QuestionClosure {
        question: question.id.clone(),
        state: state.to_owned(),
        choice: question.choice.clone(),
        reason: question.reason.clone(),
        by: decider.map(|decider| decider.name.clone()),
        surface: decider.map(|decider| decider.surface.clone()),
        at_ms: question.closed_ms,
    }
}

/// Describes the end of a question in a sentence.
#[must_use]
pub fn describe_closure(closure: &QuestionClosure) -> String {
    let QuestionClosure { question, state, choice, by, surface, .. } = closure;
    match (choice, by, surface) {
        (Some(choice), Some(by), Some(surface)) => {
            format!("question `{question}` was decided before: {choice}, by {by}, {surface}")
        }
        _ => format!("question `{question}` is {state}"),
    }
}

#[cfg(test)]
mod tests;
