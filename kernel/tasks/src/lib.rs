//! Background tasks and questions to people.
//!
//! A [`Task`] is a row with a state; every change of it is an [`Operation`] of the state machine,
//! executed in one transaction of a store. The machine is pure: it reads rows and produces a set of
//! changed rows, so each store only loads and saves. A [`Queue`] executes operations; [`TaskQueue`]
//! is its typed interface.
//!
//! The guarantees hold whenever a process ends: a submitted task reaches exactly one terminal state,
//! and with it exactly one outbox row of the topic `task.ended`; a write of a worker counts only
//! while its claim, a task and an epoch, is the current one; a [`Question`] is decided once, for
//! exactly the bytes that were shown.

mod amounts;
mod error;
mod home_queue;
mod ids;
mod memory;
mod operation;
#[cfg(feature = "postgres")]
mod postgres;
mod question;
mod queue;
mod sqlite;
mod store;
mod task;
mod transition;

pub use amounts::{TaskAmounts, TaskBudget};
pub use error::{QueueError, QueueErrorKind};
pub use home_queue::open_home_queue;
pub use ids::{QuestionId, TaskId, generate_question_id};
pub use memory::MemoryQueue;
pub use operation::{
    ClaimFilter, ClaimedTask, HandleBinding, HeartbeatStatus, LostWorkers, NewTask, NewWait,
    Operation, OperationOutcome, OperationResult, ReleaseReason, SubmitOutcome, SweepReport,
    WaitOutcome,
};
#[cfg(feature = "postgres")]
pub use postgres::{PostgresAddress, PostgresQueue};
pub use question::{
    Decider, Decision, DecisionOutcome, NewQuestion, Question, QuestionKind, QuestionState,
};
pub use queue::{
    OutboxRow, QueryResult, Queue, TaskAttempt, TaskFilter, TaskLine, TaskQuery, TaskQueue,
};
pub use sqlite::SqliteQueue;
pub use task::{
    EndNotice, FailureReason, SubmitterOrigin, Task, TaskClaim, TaskKind, TaskOutcome,
    TaskProgress, TaskState, TaskSubmitter, TaskWaits, WaitMode,
};
