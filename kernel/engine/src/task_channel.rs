//! The channel of a task's run: its requests become questions, and the run waits for them parked.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use skillhost_conversation::{
    ApprovalDecision, ApprovalRequest, Channel, PersonQuestion, PersonReply, RunEvent,
    UncertainCall, UncertainDecision,
};
use skillhost_questions::{
    CallSource, make_choice, make_consent, make_uncertain, to_approval_decision, to_person_reply,
    to_uncertain_decision,
};
use skillhost_tasks::{
    NewQuestion, NewWait, Question, QuestionState, TaskId, TaskQuery, TaskQueue, WaitMode,
};

/// The number of questions of a task that are read.
const MAX_QUESTIONS: usize = 10_000;

/// The channel of a task's run. No client is attached to it.
pub(crate) struct TaskChannel {
    queue: TaskQueue,
    task: TaskId,
    /// What the run waits for when it parks.
    wait: Mutex<NewWait>,
    /// The number of times that a person changed the arguments of each call, by its key.
    edits: Mutex<BTreeMap<String, usize>>,
}

impl TaskChannel {
    pub(crate) fn new(queue: TaskQueue, task: TaskId) -> Self {
        Self { queue, task, wait: Mutex::default(), edits: Mutex::default() }
    }

    /// Returns what the parked run waits for.
    pub(crate) fn take_wait(&self) -> NewWait {
        std::mem::take(&mut *lock_unpoisoned(&self.wait))
    }

    /// Adds tasks to those that the parked run waits for. With several waits at once the run goes on
    /// when all are over, unless each ends with its first task.
    pub(crate) fn add_tasks(&self, tasks: &[TaskId], mode: WaitMode) {
        let mut wait = lock_unpoisoned(&self.wait);
        let is_first = wait.tasks.is_empty() && wait.questions.is_empty();
        wait.mode = if is_first { mode } else { WaitMode::Any };
        wait.tasks.extend_from_slice(tasks);
    }

    /// Returns the closed question about the same bytes; `None` if the run has to wait for it.
    ///
    /// Only the latest question of a call counts. An earlier one was withdrawn, as the bytes had
    /// changed: that is no decision on them, and about the old bytes the run asks again. The latest
    /// one is withdrawn only if its person declined to answer, which is a refusal.
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
        match known.into_iter().rev().find(|known| known.call == new.call) {
            Some(last) if last.subject == new.subject && last.state != QuestionState::Open => {
                Some(last)
            }
            _ => {
                lock_unpoisoned(&self.wait).questions.push(new);
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
        let key = request.call_key.as_deref().unwrap_or_default();
        let edits = lock_unpoisoned(&self.edits).get(key).copied().unwrap_or_default();
        let asked = make_consent(CallSource::Task(&self.task), request, edits);
        let decision = match self.find_closed(asked).await {
            Some(closed) => to_approval_decision(&closed),
            None => ApprovalDecision::Parked,
        };
        if matches!(decision, ApprovalDecision::Edited { .. }) {
            // The changed call is asked about by a question of its own.
            *lock_unpoisoned(&self.edits).entry(key.to_owned()).or_default() += 1;
        }
        decision
    }

    async fn resolve_uncertain_call(&self, call: &UncertainCall) -> UncertainDecision {
        if !call.can_park {
            return UncertainDecision::Stop;
        }
        match self.find_closed(make_uncertain(CallSource::Task(&self.task), call)).await {
            Some(closed) => to_uncertain_decision(&closed),
            None => UncertainDecision::Parked,
        }
    }

    async fn ask_person(&self, question: &PersonQuestion) -> PersonReply {
        if !question.can_park {
            let reason = "this call cannot wait for a person".to_owned();
            return PersonReply::Refused { reason };
        }
        match self.find_closed(make_choice(CallSource::Task(&self.task), question)).await {
            Some(closed) => to_person_reply(&closed),
            None => PersonReply::Parked,
        }
    }
}

/// Locks a mutex; entries stay consistent even if another thread panicked.
fn lock_unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
