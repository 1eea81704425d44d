//! The interface of stores, and the typed interface of their users.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::amounts::TaskAmounts;
use crate::error::QueueError;
use crate::ids::{QuestionId, TaskId};
use crate::operation::{
    ClaimFilter, ClaimedTask, HeartbeatStatus, LostWorkers, NewTask, NewWait, Operation,
    OperationOutcome, OperationResult, ReleaseReason, SubmitOutcome, SweepReport, WaitOutcome,
};
use crate::question::{
    Decision, DecisionOutcome, NewQuestion, Question, QuestionKind, QuestionState,
};
use crate::task::{Task, TaskClaim, TaskKind, TaskOutcome, TaskProgress, TaskState, TaskSubmitter};

/// A store of tasks and questions.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Executes an operation; its changes are durable when this returns.
    ///
    /// # Errors
    /// [`QueueError`]; the operation then made no change.
    async fn execute(&self, operation: Operation) -> OperationResult;

    /// Reads without waiting for a writer.
    ///
    /// # Errors
    /// An error of the store.
    async fn read(&self, query: TaskQuery) -> Result<QueryResult, QueueError>;

    /// Waits until rows may have changed, at most for a time. A hint: a change of another process
    /// may be missed.
    async fn wait_for_change(&self, at_most: Duration);

    /// Returns the time of the store's clock, in milliseconds since 1970.
    async fn now_ms(&self) -> Result<u64, QueueError>;

    /// Returns whether other machines claim from the same store, so that a claim of an earlier
    /// process may belong to a live worker.
    fn is_shared(&self) -> bool {
        false
    }

    /// Returns the name of the home among those that share the store; empty in a store of one home.
    ///
    /// # Errors
    /// An error of the store.
    async fn home_identity(&self) -> Result<String, QueueError> {
        Ok(String::new())
    }
}

/// A query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskQuery {
    /// A task: [`QueryResult::Tasks`] with one row, or none.
    Task(TaskId),
    /// Tasks, the newest first.
    Tasks(TaskFilter),
    /// The input of a task: [`QueryResult::Text`].
    Input(TaskId),
    /// The lines of a task after a number, in order.
    Lines {
        /// The task.
        task: TaskId,
        /// The number of lines to omit.
        after: u64,
        /// The maximum number.
        limit: usize,
    },
    /// The attempts of a task, in order.
    Attempts(TaskId),
    /// A question: [`QueryResult::Questions`] with one row, or none.
    Question(QuestionId),
    /// Questions, the oldest first.
    Questions {
        /// Their state; `None` is every state.
        state: Option<QuestionState>,
        /// Their kind; `None` is every kind.
        kind: Option<QuestionKind>,
        /// Their task.
        task: Option<TaskId>,
        /// Their thread.
        thread: Option<String>,
        /// The maximum number.
        limit: usize,
    },
    /// The oldest open questions that this home has asked; in a store of one home, of all.
    OwnQuestions {
        /// The maximum number.
        limit: usize,
    },
    /// The oldest rows of the outbox; in a shared store, of the tasks and questions of this home.
    Outbox {
        /// The maximum number.
        limit: usize,
    },
    /// The numbers of tasks by state: [`QueryResult::Counts`].
    Counts,
    /// The task of a handle: [`QueryResult::Tasks`] with one row, or none.
    Handle {
        /// sha256 of the handle, hexadecimal.
        sha256: String,
        /// The principal that it must be bound to.
        principal: String,
    },
    /// The earliest time at which a task becomes due, in milliseconds: [`QueryResult::Time`].
    NextDue,
}

impl TaskQuery {
    /// Returns the query for the oldest open questions.
    pub(crate) fn open_questions(limit: usize) -> Self {
        let state = Some(QuestionState::Open);
        Self::Questions { state, kind: None, task: None, thread: None, limit }
    }
}

/// A filter of tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskFilter {
    /// The states; empty is every state.
    pub states: Vec<TaskState>,
    /// The kind.
    pub kind: Option<TaskKind>,
    /// The outermost task.
    pub root: Option<TaskId>,
    /// The parent.
    pub parent: Option<TaskId>,
    /// The thread of the submitter.
    pub thread: Option<String>,
    /// Only tasks that are older than this one, for pages.
    pub before: Option<TaskId>,
    /// The maximum number; 0 is 100.
    pub limit: usize,
}

/// The result of a [`TaskQuery`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum QueryResult {
    /// Tasks.
    Tasks(Vec<Task>),
    /// A text, or `None` if the task does not exist.
    Text(Option<String>),
    /// Lines.
    Lines(Vec<TaskLine>),
    /// Attempts.
    Attempts(Vec<TaskAttempt>),
    /// Questions.
    Questions(Vec<Question>),
    /// Rows of the outbox.
    Outbox(Vec<OutboxRow>),
    /// The number of tasks in each state that has any.
    Counts(Vec<(TaskState, u64)>),
    /// A time, in milliseconds since 1970.
    Time(Option<u64>),
}

/// A line of a task's journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskLine {
    /// The number, from 0.
    pub seq: u64,
    /// The claim that stored it.
    pub epoch: u64,
    /// The line, without its line break.
    pub line: String,
}

/// An attempt of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskAttempt {
    /// The claim.
    pub epoch: u64,
    /// The worker.
    pub worker: String,
    /// The time of the claim, in milliseconds since 1970.
    pub began_ms: u64,
    /// The time of its end.
    pub ended_ms: Option<u64>,
    /// How it ended: the next state, `retry`, `stop` or `lost`.
    pub how: Option<String>,
    /// The error.
    pub error: Option<String>,
}

/// An event that is not in the journal yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxRow {
    /// The sequence number.
    pub seq: i64,
    /// The topic.
    pub topic: String,
    /// The idempotency key of the event.
    pub key: String,
    /// The correlation id.
    pub correlation_id: Option<String>,
    /// A JSON object.
    pub payload: String,
}

/// The typed interface of a [`Queue`]; cheap to clone.
#[derive(Clone)]
pub struct TaskQueue {
    queue: Arc<dyn Queue>,
}

/// Generates a method that executes an operation and unwraps its outcome.
macro_rules! outcome {
    ($outcome:expr, $pattern:pat => $value:expr) => {
        match $outcome {
            $pattern => Ok($value),
            // Each operation has one kind of outcome.
            other => Err(QueueError::new(
                crate::QueueErrorKind::Database,
                format!("the store returned another outcome: {other:?}"),
                "report this error",
            )),
        }
    };
}

impl TaskQueue {
    /// Creates the interface of a store.
    #[must_use]
    pub fn new(queue: Arc<dyn Queue>) -> Self {
        Self { queue }
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Queue> {
        &self.queue
    }

    /// Submits a task.
    ///
    /// # Errors
    /// [`QueueError`]: an input or budget that is not valid, a key of a task with another input, an
    /// unknown or ended parent, a limit of subtasks, an error of the store.
    pub async fn submit(&self, task: NewTask) -> Result<SubmitOutcome, QueueError> {
        let outcome = self.queue.execute(Operation::Submit(Box::new(task))).await?;
        outcome!(outcome, OperationOutcome::Submitted(submitted) => *submitted)
    }

    /// Submits a terminal task again; without `fresh` the new one continues from its lines.
    ///
    /// # Errors
    /// [`QueueErrorKind::Conflict`](crate::QueueErrorKind::Conflict) if it has not ended.
    pub async fn retry(
        &self,
        task: TaskId,
        fresh: bool,
        submitter: TaskSubmitter,
    ) -> Result<SubmitOutcome, QueueError> {
        let operation = Operation::Retry { task, id: TaskId::generate(), fresh, submitter };
        let outcome = self.queue.execute(operation).await?;
        outcome!(outcome, OperationOutcome::Submitted(submitted) => *submitted)
    }

    /// Claims due tasks.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn claim(
        &self,
        worker: &str,
        filter: ClaimFilter,
        limit: usize,
        lease: Duration,
    ) -> Result<Vec<ClaimedTask>, QueueError> {
        let (worker, lease_ms) = (worker.to_owned(), to_ms(lease));
        let outcome =
            self.queue.execute(Operation::Claim { worker, filter, limit, lease_ms }).await?;
        outcome!(outcome, OperationOutcome::Claimed(tasks) => tasks)
    }

    /// Renews leases.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn heartbeat(
        &self,
        claims: Vec<TaskClaim>,
        lease: Duration,
    ) -> Result<Vec<HeartbeatStatus>, QueueError> {
        let lease_ms = to_ms(lease);
        let outcome = self.queue.execute(Operation::Heartbeat { claims, lease_ms }).await?;
        outcome!(outcome, OperationOutcome::Heartbeats(states) => states)
    }

    /// Ends what is over its time.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn sweep(&self, lost_workers: LostWorkers) -> Result<SweepReport, QueueError> {
        let outcome = self.queue.execute(Operation::Sweep { lost_workers }).await?;
        outcome!(outcome, OperationOutcome::Swept(report) => report)
    }

    /// Stores lines, amounts and progress of a run.
    ///
    /// # Errors
    /// [`QueueErrorKind::Stale`](crate::QueueErrorKind::Stale) if the claim is not the current one.
    pub async fn record(
        &self,
        claim: TaskClaim,
        lines: Vec<String>,
        spent: TaskAmounts,
        progress: Option<TaskProgress>,
    ) -> Result<(), QueueError> {
        let returned = TaskAmounts::default();
        let operation = Operation::Record { claim, lines, spent, returned, progress };
        self.queue.execute(operation).await.map(drop)
    }

    /// Stores lines and amounts of a run, and returns amounts that were counted too much.
    ///
    /// # Errors
    /// As for [`TaskQueue::record`].
    pub async fn record_corrected(
        &self,
        claim: TaskClaim,
        lines: Vec<String>,
        spent: TaskAmounts,
        returned: TaskAmounts,
    ) -> Result<(), QueueError> {
        let operation = Operation::Record { claim, lines, spent, returned, progress: None };
        self.queue.execute(operation).await.map(drop)
    }

    /// Ends a run that waits.
    ///
    /// # Errors
    /// As for [`TaskQueue::record`];
    /// [`QueueErrorKind::Cycle`](crate::QueueErrorKind::Cycle) if a task that is waited for waits
    /// for this one.
    pub async fn wait(&self, claim: TaskClaim, wait: NewWait) -> Result<WaitOutcome, QueueError> {
        let outcome = self.queue.execute(Operation::Wait { claim, wait }).await?;
        outcome!(outcome, OperationOutcome::Waiting(waiting) => waiting)
    }

    /// Asks a question for a run of a thread, or for a command.
    ///
    /// # Errors
    /// A subject that is too large, and an error of the store.
    pub async fn ask(&self, question: NewQuestion) -> Result<Question, QueueError> {
        let outcome = self.queue.execute(Operation::Ask(Box::new(question))).await?;
        outcome!(outcome, OperationOutcome::Asked(question) => *question)
    }

    /// Decides a question.
    ///
    /// # Errors
    /// [`QueueErrorKind::NotFound`](crate::QueueErrorKind::NotFound), and
    /// [`QueueErrorKind::Invalid`](crate::QueueErrorKind::Invalid) for a choice that is not an
    /// option.
    pub async fn decide(&self, decision: Decision) -> Result<DecisionOutcome, QueueError> {
        let outcome = self.queue.execute(Operation::Decide(decision)).await?;
        outcome!(outcome, OperationOutcome::Decided(decided) => *decided)
    }

    /// Withdraws the open questions of a thread; returns their number.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn withdraw_thread(&self, thread: &str, reason: &str) -> Result<usize, QueueError> {
        let (thread, reason) = (Some(thread.to_owned()), reason.to_owned());
        let operation = Operation::Withdraw { thread, question: None, reason };
        outcome!(self.queue.execute(operation).await?, OperationOutcome::Done(count) => count)
    }

    /// Withdraws an open question; returns whether it was open.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn withdraw(&self, question: &str, reason: &str) -> Result<bool, QueueError> {
        let (question, reason) = (Some(question.to_owned()), reason.to_owned());
        let operation = Operation::Withdraw { thread: None, question, reason };
        outcome!(self.queue.execute(operation).await?, OperationOutcome::Done(count) => count > 0)
    }

    /// Releases a claim without an outcome.
    ///
    /// # Errors
    /// As for [`TaskQueue::record`].
    pub async fn release(
        &self,
        claim: TaskClaim,
        reason: ReleaseReason,
    ) -> Result<Task, QueueError> {
        let outcome = self.queue.execute(Operation::Release { claim, reason }).await?;
        outcome!(outcome, OperationOutcome::Changed(task) => *task)
    }

    /// Ends a task.
    ///
    /// # Errors
    /// As for [`TaskQueue::record`].
    pub async fn finish(
        &self,
        claim: TaskClaim,
        outcome: TaskOutcome,
        spent: TaskAmounts,
    ) -> Result<Task, QueueError> {
        let outcome = self.queue.execute(Operation::Finish { claim, outcome, spent }).await?;
        outcome!(outcome, OperationOutcome::Changed(task) => *task)
    }

    /// Cancels a task and its subtasks. A running one is only marked: its run ends it.
    ///
    /// # Errors
    /// [`QueueErrorKind::NotFound`](crate::QueueErrorKind::NotFound).
    pub async fn cancel(&self, task: TaskId, by: &str) -> Result<Task, QueueError> {
        let by = by.to_owned();
        let outcome = self.queue.execute(Operation::Cancel { task, by }).await?;
        outcome!(outcome, OperationOutcome::Changed(task) => *task)
    }

    /// Removes published rows from the outbox.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn acknowledge_outbox(&self, seqs: Vec<i64>) -> Result<(), QueueError> {
        self.queue.execute(Operation::AcknowledgeOutbox { seqs }).await.map(drop)
    }

    /// Stores another handle of a task; [`NewTask::handle`] is the first.
    ///
    /// # Errors
    /// [`QueueErrorKind::NotFound`](crate::QueueErrorKind::NotFound).
    pub async fn bind_handle(
        &self,
        sha256: String,
        task: TaskId,
        principal: String,
    ) -> Result<(), QueueError> {
        self.queue.execute(Operation::BindHandle { sha256, task, principal }).await.map(drop)
    }

    /// Finds a task.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn find(&self, task: &TaskId) -> Result<Option<Task>, QueueError> {
        Ok(self.tasks(TaskQuery::Task(task.clone())).await?.pop())
    }

    /// Lists tasks, the newest first.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn list(&self, filter: TaskFilter) -> Result<Vec<Task>, QueueError> {
        self.tasks(TaskQuery::Tasks(filter)).await
    }

    /// Finds the task of a handle that is bound to a principal.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn find_by_handle(
        &self,
        sha256: String,
        principal: String,
    ) -> Result<Option<Task>, QueueError> {
        Ok(self.tasks(TaskQuery::Handle { sha256, principal }).await?.pop())
    }

    /// Returns the input of a task.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn input(&self, task: &TaskId) -> Result<Option<String>, QueueError> {
        let found = self.queue.read(TaskQuery::Input(task.clone())).await?;
        outcome!(found, QueryResult::Text(text) => text)
    }

    /// Returns lines of a task.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn lines(
        &self,
        task: &TaskId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<TaskLine>, QueueError> {
        let found = self.queue.read(TaskQuery::Lines { task: task.clone(), after, limit }).await?;
        outcome!(found, QueryResult::Lines(lines) => lines)
    }

    /// Returns the attempts of a task, in order.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn attempts(&self, task: &TaskId) -> Result<Vec<TaskAttempt>, QueueError> {
        let found = self.queue.read(TaskQuery::Attempts(task.clone())).await?;
        outcome!(found, QueryResult::Attempts(attempts) => attempts)
    }

    /// Finds a question.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn question(&self, id: &str) -> Result<Option<Question>, QueueError> {
        Ok(self.questions(TaskQuery::Question(id.to_owned())).await?.pop())
    }

    /// Lists open questions, the oldest first.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn open_questions(&self, limit: usize) -> Result<Vec<Question>, QueueError> {
        self.questions(TaskQuery::open_questions(limit)).await
    }

    /// Lists the open questions that this home has asked, the oldest first.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn own_questions(&self, limit: usize) -> Result<Vec<Question>, QueueError> {
        self.questions(TaskQuery::OwnQuestions { limit }).await
    }

    /// Executes a query for questions.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn questions(&self, query: TaskQuery) -> Result<Vec<Question>, QueueError> {
        outcome!(self.queue.read(query).await?, QueryResult::Questions(questions) => questions)
    }

    /// Returns the oldest rows of the outbox.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn outbox(&self, limit: usize) -> Result<Vec<OutboxRow>, QueueError> {
        outcome!(self.queue.read(TaskQuery::Outbox { limit }).await?, QueryResult::Outbox(rows) => rows)
    }

    /// Returns the number of tasks in each state that has any.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn counts(&self) -> Result<Vec<(TaskState, u64)>, QueueError> {
        outcome!(self.queue.read(TaskQuery::Counts).await?, QueryResult::Counts(counts) => counts)
    }

    /// Returns the earliest time at which a ready task becomes due.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn next_due(&self) -> Result<Option<u64>, QueueError> {
        outcome!(self.queue.read(TaskQuery::NextDue).await?, QueryResult::Time(time) => time)
    }

    async fn tasks(&self, query: TaskQuery) -> Result<Vec<Task>, QueueError> {
        outcome!(self.queue.read(query).await?, QueryResult::Tasks(tasks) => tasks)
    }
}

fn to_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
