//! Rows for tests.

use super::execute_operation;
use crate::memory::MemoryRows;
use crate::operation::{NewTask, Operation, OperationOutcome};
use crate::task::{Task, TaskKind};

/// Returns a task as a submission stores it.
pub(crate) fn new_task() -> Task {
    let mut rows = MemoryRows::default();
    let new = NewTask::new(TaskKind::Agent, "worker", "do it");
    match execute_operation(&mut rows, Operation::Submit(Box::new(new)), 0).unwrap() {
        OperationOutcome::Submitted(submitted) => submitted.task,
        other => panic!("{other:?}"),
    }
}
