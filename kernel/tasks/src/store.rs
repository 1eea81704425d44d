//! The rows that the state machine reads and writes, as every store provides them.

use crate::error::QueueError;
use crate::ids::{QuestionId, TaskId};
use crate::operation::ClaimFilter;
use crate::question::{Question, QuestionState};
use crate::task::{Task, TaskState};

/// The result of a store's function.
pub(crate) type StoreResult<T> = Result<T, QueueError>;

/// A transaction of a store. Reads see the writes before them.
///
/// Operations refuse before their first write, so a refused one needs no rollback; after an error
/// of the store itself the whole transaction is rolled back.
pub(crate) trait StoreTransaction {
    /// Returns a task; a store with several writers locks its row.
    fn task(&mut self, id: &TaskId) -> StoreResult<Option<Task>>;

    /// Returns the task that was submitted with a key.
    fn task_by_key(&mut self, scope: &str, key: &str) -> StoreResult<Option<Task>>;

    /// Returns the task that repeats another one.
    fn retry_of(&mut self, id: &TaskId) -> StoreResult<Option<Task>>;

    /// Returns the input of a task.
    fn input(&mut self, id: &TaskId) -> StoreResult<String>;

    /// Returns the subtasks of a task that have not ended, by id.
    fn open_children(&mut self, id: &TaskId) -> StoreResult<Vec<Task>>;

    /// Returns the number of tasks below an outermost task that have not ended.
    fn count_open(&mut self, root: &TaskId) -> StoreResult<usize>;

    /// Returns the waiting tasks whose waits name a task, by id.
    fn waiting_for(&mut self, id: &TaskId) -> StoreResult<Vec<Task>>;

    /// Returns due tasks of a filter: by priority, due time and id, and of each lane only its first
    /// open task. A store with several writers locks them and omits locked ones.
    fn claimable(
        &mut self,
        filter: &ClaimFilter,
        now_ms: u64,
        limit: usize,
    ) -> StoreResult<Vec<Task>>;

    /// Returns tasks whose time is over, by id: running ones whose lease ends until now or after
    /// `latest_lease_ms` (with `all_running` every one), open ones whose deadline has passed,
    /// waiting ones whose time has come, pauses that end after `latest_pause_ms`.
    fn overdue(&mut self, limits: &OverdueLimits, limit: usize) -> StoreResult<Vec<Task>>;

    /// Returns a question; a store with several writers locks its row.
    fn question(&mut self, id: &str) -> StoreResult<Option<Question>>;

    /// Returns the question with this origin and call that is open, or else the one
    /// with the highest id.
    fn question_by_call(
        &mut self,
        task: Option<&TaskId>,
        thread: Option<&str>,
        call: &str,
    ) -> StoreResult<Option<Question>>;

    /// Returns the open questions of a task, by id.
    fn open_questions_of_task(&mut self, task: &TaskId) -> StoreResult<Vec<Question>>;

    /// Returns the open questions of a thread, by id.
    fn open_questions_of_thread(&mut self, thread: &str) -> StoreResult<Vec<Question>>;

    /// Returns open questions that were asked until a time, by id.
    fn open_questions_until(&mut self, opened_ms: u64, limit: usize) -> StoreResult<Vec<Question>>;

    /// Inserts a task with its input.
    fn insert_task(&mut self, task: &Task, input: &str) -> StoreResult<()>;

    /// Replaces a task that is not terminal in the store.
    fn update_task(&mut self, task: &Task) -> StoreResult<()>;

    /// Appends lines; the first one has the number `first`.
    fn append_lines(
        &mut self,
        task: &TaskId,
        epoch: u64,
        first: u64,
        lines: &[String],
    ) -> StoreResult<()>;

    /// Copies all lines of a task to another one, with epoch 0; returns their number.
    fn copy_lines(&mut self, from: &TaskId, to: &TaskId) -> StoreResult<u64>;

    /// Inserts the attempt of the current claim of a task.
    fn begin_attempt(&mut self, task: &Task, now_ms: u64) -> StoreResult<()>;

    /// Ends the attempt of a claim.
    fn end_attempt(
        &mut self,
        task: &TaskId,
        epoch: u64,
        how: &str,
        error: Option<&str>,
        now_ms: u64,
    ) -> StoreResult<()>;

    /// Inserts a question.
    fn insert_question(&mut self, question: &Question) -> StoreResult<()>;

    /// Replaces a question that is open in the store.
    fn update_question(&mut self, question: &Question) -> StoreResult<()>;

    /// Appends an event to the outbox.
    fn append_outbox(&mut self, event: &OutboxEvent) -> StoreResult<()>;

    /// Removes rows from the outbox; returns their number.
    fn remove_outbox(&mut self, seqs: &[i64]) -> StoreResult<usize>;

    /// Stores a handle.
    fn insert_handle(&mut self, sha256: &str, task: &TaskId, principal: &str) -> StoreResult<()>;
}

/// The limits of [`StoreTransaction::overdue`], in milliseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OverdueLimits {
    /// The present.
    pub(crate) now_ms: u64,
    /// A lease that ends later was set by another clock.
    pub(crate) latest_lease_ms: u64,
    /// A pause that ends later was set by another clock.
    pub(crate) latest_pause_ms: u64,
    /// Every running task counts.
    pub(crate) all_running: bool,
}

impl OverdueLimits {
    /// Returns whether the time of a task is over.
    pub(crate) fn contains(&self, task: &Task) -> bool {
        let now = self.now_ms;
        let by_deadline = task.deadline_ms.is_some_and(|deadline| deadline <= now);
        match task.state {
            TaskState::Running => {
                let lease = task.lease_ms.unwrap_or(0);
                self.all_running || lease <= now || lease > self.latest_lease_ms || by_deadline
            }
            TaskState::Waiting => {
                by_deadline || task.waits.until_ms.is_some_and(|until| until <= now)
            }
            TaskState::Ready => {
                by_deadline || (task.is_backoff && task.due_ms > self.latest_pause_ms)
            }
            _ => false,
        }
    }
}

/// An event for the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutboxEvent {
    pub(crate) topic: &'static str,
    pub(crate) key: String,
    pub(crate) correlation_id: Option<String>,
    /// A JSON object.
    pub(crate) payload: String,
    /// The row that it is about.
    pub(crate) subject: EventSubject,
}

/// The row that an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EventSubject {
    /// A task.
    Task(TaskId),
    /// A question of a thread or of a command.
    Question(QuestionId),
}

/// Returns the question of a call that is open, or else the one with the highest id. Ids of several
/// processes are not in the order of time: clocks differ.
pub(crate) fn newest_question(questions: Vec<Question>) -> Option<Question> {
    questions.into_iter().max_by(|one, other| {
        let is_open = |question: &Question| question.state == QuestionState::Open;
        is_open(one).cmp(&is_open(other)).then_with(|| one.id.cmp(&other.id))
    })
}
