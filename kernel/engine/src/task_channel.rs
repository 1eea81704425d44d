//! The channel of a task's run: its requests become questions, and the run waits for them parked.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use skillhost_conversation::{
    ApprovalDecision, ApprovalRequest, Channel, PersonQuestion, PersonReply, RunEvent,
    UncertainCall, UncertainDecision,
};
use skillhost_tasks::{
    NewQuestion, NewWait, Question, QuestionState, TaskId, TaskQuery, TaskQueue, WaitMode,
};

use crate::call_question::{
    make_choice, make_consent, make_uncertain, to_approval_decision, to_person_reply,
    to_uncertain_decision,
};

/// The number of questions of a task that are read.
const MAX_QUESTIONS: usize = 10_000;

/// The channel of a task's run. No client is attached to it.
pub(crate) struct TaskChannel {
    queue: TaskQueue,
    task: TaskId,
    /// What the run waits for when it parks.
    wait: Mutex<NewWait>,
}

impl TaskChannel {
    pub(crate) fn new(queue: TaskQueue, task: TaskId) -> Self {
        Self { queue, task, wait: Mutex::default() }
    }

    /// Returns what the parked run waits for.
    pub(crate) fn take_wait(&self) -> NewWait {
        std::mem::take(&mut *self.lock_wait())
    }

    /// Adds tasks to those that the parked run waits for. With several waits at once the run goes on
    /// when all are over, unless each ends with its first task.
    pub(crate) fn add_tasks(&self, tasks: &[TaskId], mode: WaitMode) {
        let mut wait = self.lock_wait();
        let is_first = wait.tasks.is_empty() && wait.questions.is_empty();
        wait.mode = if is_first { mode } else { WaitMode::Any };
        wait.tasks.extend_from_slice(tasks);
    }

    fn lock_wait(&self) -> MutexGuard<'_, NewWait> {
        self.wait.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the closed question about the same bytes; `None` if the run has to wait for it.
    async fn find_closed(&self, new: NewQuestion) -> Option<Question> {
        let query = TaskQuery::Questions {
            state: None,
            kind: Some(new.kind),
            task: Some(self.task.clone()),
            thread: None,
            limit: MAX_QUESTIONS,
        };
        // Without the store the run parks, and the engine reports the error.
        let known = self.queue.questions(query).await.unwrap_or_default();
        let is_same = |known: &&Question| known.call == new.call && known.subject == new.subject;
        match known.iter().rev().find(is_same) {
            Some(closed) if closed.state != QuestionState::Open => Some(closed.clone()),
            _ => {
                self.lock_wait().questions.push(new);
                None
            }
        }
    }
}

#[async_trait]
impl Channel for TaskChannel {
    // The lines of the task have every step.
    fn on_event(&self, _: &RunEvent) {}

    fn can_park(&self) -> bool {
        true
    }

    async fn request_approval(&self, request: &ApprovalRequest) -> ApprovalDecision {
        if !request.can_park {
            let reason = "a call that a tool makes in a task cannot wait for a person".to_owned();
            return ApprovalDecision::Refuse { reason };
        }
        match self.find_closed(make_consent(&self.task, request)).await {
            Some(closed) => to_approval_decision(&closed),
            None => ApprovalDecision::Parked,
        }
    }

    async fn resolve_uncertain_call(&self, call: &UncertainCall) -> UncertainDecision {
        if !call.can_park {
            return UncertainDecision::Stop;
        }
        match self.find_closed(make_uncertain(&self.task, call)).await {
            Some(closed) => to_uncertain_decision(&closed),
            None => UncertainDecision::Parked,
        }
    }

    async fn ask_person(&self, question: &PersonQuestion) -> PersonReply {
        if !question.can_park {
            let reason = "this call cannot wait for a person".to_owned();
            return PersonReply::Refused { reason };
        }
        match self.find_closed(make_choice(&self.task, question)).await {
            Some(closed) => to_person_reply(&closed),
            None => PersonReply::Parked,
        }
    }
}
