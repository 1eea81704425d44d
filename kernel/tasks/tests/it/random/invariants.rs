//! Statements that hold after every operation, checked without the state machine.

use std::collections::{BTreeMap, BTreeSet};

use skillhost_tasks::{
    Operation, OperationResult, OutboxRow, Question, QuestionState, Task, TaskClaim, TaskId,
};

/// The history of the rows of a store.
#[derive(Default)]
pub(crate) struct RowHistory {
    ended: BTreeMap<TaskId, Task>,
    closed: BTreeMap<String, Question>,
    epochs: BTreeMap<TaskId, u64>,
    outbox: BTreeSet<i64>,
    notices: BTreeMap<String, u32>,
}

impl RowHistory {
    /// Counts the events that were not seen before.
    pub(crate) fn observe_outbox(&mut self, outbox: &[OutboxRow]) {
        for row in outbox.iter().filter(|row| self.outbox.insert(row.seq)) {
            if row.topic == "task.ended" {
                *self.notices.entry(row.key.clone()).or_default() += 1;
            }
        }
    }

    /// Checks the rows against those seen before.
    pub(crate) fn observe_rows(&mut self, tasks: &[Task], questions: &[Question]) {
        for task in tasks {
            let epoch = self.epochs.entry(task.id.clone()).or_default();
            assert!(task.epoch >= *epoch, "the epoch of {} decreased", task.id);
            *epoch = task.epoch;
            let notices = self.notices.get(task.id.as_str()).copied().unwrap_or(0);
            let is_ended = task.state.is_terminal();
            assert_eq!(notices, u32::from(is_ended), "{} notices of {}", notices, task.id);
            assert_eq!(
                task.outcome.as_ref().map(|end| end.state()),
                is_ended.then_some(task.state)
            );
            if is_ended {
                let first = self.ended.entry(task.id.clone()).or_insert_with(|| task.clone());
                assert_eq!(first, task, "a terminal task changed");
            } else {
                check_reservation(task, tasks);
            }
        }
        assert!(self.ended.len() <= tasks.len(), "a task disappeared");
        for question in questions.iter().filter(|one| one.state != QuestionState::Open) {
            let first = self.closed.entry(question.id.clone()).or_insert_with(|| question.clone());
            assert_eq!(first, question, "a closed question changed");
        }
        let mut open = BTreeSet::new();
        for question in questions.iter().filter(|one| one.state == QuestionState::Open) {
            // The thread of a task's question is not a part of its origin.
            let thread = question.thread.as_ref().filter(|_| question.task.is_none());
            let call = (&question.task, thread, &question.call);
            assert!(open.insert(call), "two open questions of a call: {question:?}");
        }
    }
}

/// Checks that an accepted write of a run had the claim that was current before it.
pub(crate) fn check_fencing(
    before: Option<&Task>,
    operation: &Operation,
    result: &OperationResult,
) {
    let Some(claim) = claim_of(operation) else { return };
    if result.is_ok() {
        let current = before.and_then(Task::current_claim);
        assert_eq!(current.as_ref(), Some(claim), "a stale write was accepted: {operation:?}");
    }
}

/// Returns the claim of an operation of a run.
pub(crate) fn claim_of(operation: &Operation) -> Option<&TaskClaim> {
    match operation {
        Operation::Record { claim, .. }
        | Operation::Wait { claim, .. }
        | Operation::Release { claim, .. }
        | Operation::Finish { claim, .. } => Some(claim),
        _ => None,
    }
}

/// Checks that a task has reserved exactly the budgets of its open subtasks.
fn check_reservation(task: &Task, tasks: &[Task]) {
    let open =
        |other: &&Task| other.parent.as_ref() == Some(&task.id) && !other.state.is_terminal();
    let (mut tokens, mut turns) = (0, 0);
    for child in tasks.iter().filter(open) {
        tokens += child.budget.tokens.unwrap_or(0);
        turns += child.budget.turns.unwrap_or(0);
    }
    assert_eq!((task.reserved.tokens, task.reserved.turns), (tokens, turns), "of {}", task.id);
}
