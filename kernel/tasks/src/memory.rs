//! A store in memory: the model that the other stores are compared with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use skillhost_events::Clock;
use tokio::sync::Notify;

use crate::error::QueueError;
use crate::ids::TaskId;
use crate::operation::{ClaimFilter, Operation, OperationResult};
use crate::question::{Question, QuestionState};
use crate::queue::{OutboxRow, QueryResult, Queue, TaskAttempt, TaskFilter, TaskLine, TaskQuery};
use crate::store::{OutboxEvent, OverdueLimits, StoreResult, StoreTransaction, newest_question};
use crate::task::{Task, TaskState};
use crate::transition::execute_operation;

/// The number of tasks of a list without a limit.
const DEFAULT_LIMIT: usize = 100;

/// A queue that ends with the process.
#[derive(Debug)]
pub struct MemoryQueue {
    rows: Mutex<MemoryRows>,
    clock: Clock,
    changed: Notify,
}

/// The rows of a [`MemoryQueue`].
#[derive(Debug, Default)]
pub(crate) struct MemoryRows {
    tasks: BTreeMap<TaskId, Task>,
    inputs: BTreeMap<TaskId, String>,
    lines: BTreeMap<TaskId, Vec<TaskLine>>,
    attempts: BTreeMap<TaskId, Vec<TaskAttempt>>,
    questions: BTreeMap<String, Question>,
    outbox: BTreeMap<i64, OutboxRow>,
    last_seq: i64,
    handles: BTreeMap<String, (TaskId, String)>,
}

impl MemoryQueue {
    /// Creates an empty queue.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { rows: Mutex::default(), clock, changed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, MemoryRows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Queue for MemoryQueue {
    async fn execute(&self, operation: Operation) -> OperationResult {
        // The steady time: leases and pauses must not follow a change of the wall clock.
        let outcome = execute_operation(&mut *self.lock(), operation, self.clock.steady_ms());
        self.changed.notify_waiters();
        outcome
    }

    async fn read(&self, query: TaskQuery) -> Result<QueryResult, QueueError> {
        Ok(self.lock().answer(query))
    }

    async fn wait_for_change(&self, at_most: Duration) {
        // Both ends of the wait mean the same to the caller.
        let _ = tokio::time::timeout(at_most, self.changed.notified()).await;
    }

    async fn now_ms(&self) -> Result<u64, QueueError> {
        Ok(self.clock.steady_ms())
    }
}

impl MemoryRows {
    fn select(&self, matches: impl Fn(&Task) -> bool) -> Vec<Task> {
        self.tasks.values().filter(|task| matches(task)).cloned().collect()
    }

    fn select_questions(&self, matches: impl Fn(&Question) -> bool) -> Vec<Question> {
        self.questions.values().filter(|question| matches(question)).cloned().collect()
    }

    fn answer(&self, query: TaskQuery) -> QueryResult {
        match query {
            TaskQuery::OwnQuestions { limit } => self.answer(TaskQuery::open_questions(limit)),
            TaskQuery::Task(id) => {
                QueryResult::Tasks(self.tasks.get(&id).cloned().into_iter().collect())
            }
            TaskQuery::Tasks(filter) => QueryResult::Tasks(self.filtered(&filter)),
            TaskQuery::Input(id) => QueryResult::Text(self.inputs.get(&id).cloned()),
            TaskQuery::Lines { task, after, limit } => {
                let lines = self.lines.get(&task).into_iter().flatten();
                QueryResult::Lines(
                    lines.filter(|line| line.seq >= after).take(limit).cloned().collect(),
                )
            }
            TaskQuery::Attempts(id) => {
                QueryResult::Attempts(self.attempts.get(&id).cloned().unwrap_or_default())
            }
            TaskQuery::Question(id) => {
                QueryResult::Questions(self.questions.get(&id).cloned().into_iter().collect())
            }
            TaskQuery::Questions { state, kind, task, thread, limit } => {
                let mut found = self.select_questions(|question| {
                    state.is_none_or(|state| question.state == state)
                        && kind.is_none_or(|kind| question.kind == kind)
                        && task.as_ref().is_none_or(|task| question.task.as_ref() == Some(task))
                        && thread.as_ref().is_none_or(|own| question.thread.as_ref() == Some(own))
                });
                found.sort_by(|a, b| (a.opened_ms, &a.id).cmp(&(b.opened_ms, &b.id)));
                found.truncate(limit);
                QueryResult::Questions(found)
            }
            TaskQuery::Outbox { limit } => {
                QueryResult::Outbox(self.outbox.values().take(limit).cloned().collect())
            }
            TaskQuery::Counts => {
                let mut counts: BTreeMap<TaskState, u64> = BTreeMap::new();
                for task in self.tasks.values() {
                    *counts.entry(task.state).or_default() += 1;
                }
                QueryResult::Counts(counts.into_iter().collect())
            }
            TaskQuery::Handle { sha256, principal } => {
                let bound = self.handles.get(&sha256).filter(|(_, owner)| *owner == principal);
                let task = bound.and_then(|(task, _)| self.tasks.get(task));
                QueryResult::Tasks(task.cloned().into_iter().collect())
            }
            TaskQuery::NextDue => {
                let ready = self.tasks.values().filter(|task| task.state == TaskState::Ready);
                QueryResult::Time(ready.map(|task| task.due_ms).min())
            }
        }
    }

    fn filtered(&self, filter: &TaskFilter) -> Vec<Task> {
        let mut found = self.select(|task| {
            (filter.states.is_empty() || filter.states.contains(&task.state))
                && filter.kind.is_none_or(|kind| task.kind == kind)
                && filter.root.as_ref().is_none_or(|root| task.root == *root)
                && filter.parent.as_ref().is_none_or(|parent| task.parent.as_ref() == Some(parent))
                && filter
                    .thread
                    .as_ref()
                    .is_none_or(|own| task.submitter.thread.as_ref() == Some(own))
                && filter.before.as_ref().is_none_or(|before| task.id < *before)
        });
        // The map is in the order of the ids, the oldest first.
        found.reverse();
        found.truncate(if filter.limit == 0 { DEFAULT_LIMIT } else { filter.limit });
        found
    }

    /// Returns whether an earlier task of the same lane has not ended, or a later one runs: the ids
    /// of several machines have no common order.
    fn is_blocked(&self, task: &Task) -> bool {
        let Some(lane) = &task.lane else { return false };
        let is_open = |other: &Task| match other.id < task.id {
            true => !other.state.is_terminal(),
            false => other.state == TaskState::Running,
        };
        let mut others = self.tasks.values().filter(|other| other.id != task.id);
        others.any(|other| other.lane.as_ref() == Some(lane) && is_open(other))
    }
}

impl StoreTransaction for MemoryRows {
    fn task(&mut self, id: &TaskId) -> StoreResult<Option<Task>> {
        Ok(self.tasks.get(id).cloned())
    }

    fn task_by_key(&mut self, scope: &str, key: &str) -> StoreResult<Option<Task>> {
        let mut all = self.tasks.values();
        Ok(all.find(|task| task.scope == scope && task.key.as_deref() == Some(key)).cloned())
    }

    fn retry_of(&mut self, id: &TaskId) -> StoreResult<Option<Task>> {
        Ok(self.tasks.values().find(|task| task.retry_of.as_ref() == Some(id)).cloned())
    }

    fn input(&mut self, id: &TaskId) -> StoreResult<String> {
        self.inputs.get(id).cloned().ok_or_else(|| QueueError::task_not_found(id))
    }

    fn open_children(&mut self, id: &TaskId) -> StoreResult<Vec<Task>> {
        Ok(self.select(|task| task.parent.as_ref() == Some(id) && !task.state.is_terminal()))
    }

    fn count_open(&mut self, root: &TaskId) -> StoreResult<usize> {
        let is_open =
            |task: &Task| task.root == *root && task.id != *root && !task.state.is_terminal();
        Ok(self.select(is_open).len())
    }

    fn waiting_for(&mut self, id: &TaskId) -> StoreResult<Vec<Task>> {
        let waits = |task: &Task| task.waits.all_tasks().any(|waited| waited == id);
        Ok(self.select(|task| task.state == TaskState::Waiting && waits(task)))
    }

    fn claimable(
        &mut self,
        filter: &ClaimFilter,
        now_ms: u64,
        limit: usize,
    ) -> StoreResult<Vec<Task>> {
        let mut due = self.select(|task| {
            task.state == TaskState::Ready
                && task.due_ms <= now_ms
                && filter.matches(task.kind, &task.target)
                && !self.is_blocked(task)
        });
        due.sort_by(|a, b| {
            (-i64::from(a.priority), a.due_ms, &a.id).cmp(&(
                -i64::from(b.priority),
                b.due_ms,
                &b.id,
            ))
        });
        due.truncate(limit);
        Ok(due)
    }

    fn overdue(&mut self, limits: &OverdueLimits, limit: usize) -> StoreResult<Vec<Task>> {
        let mut found = self.select(|task| limits.contains(task));
        found.truncate(limit);
        Ok(found)
    }

    fn question(&mut self, id: &str) -> StoreResult<Option<Question>> {
        Ok(self.questions.get(id).cloned())
    }

    fn question_by_call(
        &mut self,
        task: Option<&TaskId>,
        thread: Option<&str>,
        call: &str,
    ) -> StoreResult<Option<Question>> {
        Ok(newest_question(self.select_questions(|question| {
            let is_same_origin = match task {
                Some(_) => question.task.as_ref() == task,
                None => question.task.is_none() && question.thread.as_deref() == thread,
            };
            is_same_origin && question.call == call
        })))
    }

    fn open_questions_of_task(&mut self, task: &TaskId) -> StoreResult<Vec<Question>> {
        Ok(self.select_questions(|question| {
            question.task.as_ref() == Some(task) && question.state == QuestionState::Open
        }))
    }

    fn open_questions_of_thread(&mut self, thread: &str) -> StoreResult<Vec<Question>> {
        Ok(self.select_questions(|question| {
            question.task.is_none()
                && question.thread.as_deref() == Some(thread)
                && question.state == QuestionState::Open
        }))
    }

    fn open_questions_until(&mut self, opened_ms: u64, limit: usize) -> StoreResult<Vec<Question>> {
        let mut found = self.select_questions(|question| {
            question.state == QuestionState::Open && question.opened_ms <= opened_ms
        });
        found.truncate(limit);
        Ok(found)
    }

    fn insert_task(&mut self, task: &Task, input: &str) -> StoreResult<()> {
        self.inputs.insert(task.id.clone(), input.to_owned());
        self.tasks.insert(task.id.clone(), task.clone());
        Ok(())
    }

    fn update_task(&mut self, task: &Task) -> StoreResult<()> {
        if let Some(stored) = self.tasks.get_mut(&task.id) {
            // As the trigger of the other stores: the model must fail where they do.
            assert!(!stored.state.is_terminal(), "a terminal task was changed");
            *stored = task.clone();
        }
        Ok(())
    }

    fn append_lines(
        &mut self,
        task: &TaskId,
        epoch: u64,
        first: u64,
        lines: &[String],
    ) -> StoreResult<()> {
        let numbered = (first..).zip(lines);
        let lines = numbered.map(|(seq, line)| TaskLine { seq, epoch, line: line.clone() });
        self.lines.entry(task.clone()).or_default().extend(lines);
        Ok(())
    }

    fn copy_lines(&mut self, from: &TaskId, to: &TaskId) -> StoreResult<u64> {
        let mut lines = self.lines.get(from).cloned().unwrap_or_default();
        lines.iter_mut().for_each(|line| line.epoch = 0);
        let count = lines.len() as u64;
        self.lines.insert(to.clone(), lines);
        Ok(count)
    }

    fn begin_attempt(&mut self, task: &Task, now_ms: u64) -> StoreResult<()> {
        let attempt = TaskAttempt {
            epoch: task.epoch,
            worker: task.worker.clone().unwrap_or_default(),
            began_ms: now_ms,
            ended_ms: None,
            how: None,
            error: None,
        };
        self.attempts.entry(task.id.clone()).or_default().push(attempt);
        Ok(())
    }

    fn end_attempt(
        &mut self,
        task: &TaskId,
        epoch: u64,
        how: &str,
        error: Option<&str>,
        now_ms: u64,
    ) -> StoreResult<()> {
        let mut attempts = self.attempts.get_mut(task).into_iter().flatten();
        if let Some(attempt) = attempts.find(|attempt| attempt.epoch == epoch) {
            attempt.ended_ms = Some(now_ms);
            (attempt.how, attempt.error) = (Some(how.to_owned()), error.map(str::to_owned));
        }
        Ok(())
    }

    fn insert_question(&mut self, question: &Question) -> StoreResult<()> {
        self.questions.insert(question.id.clone(), question.clone());
        Ok(())
    }

    fn update_question(&mut self, question: &Question) -> StoreResult<()> {
        let stored = self.questions.get(&question.id);
        let is_open = stored.is_none_or(|stored| stored.state == QuestionState::Open);
        assert!(is_open, "a closed question was changed");
        self.insert_question(question)
    }

    fn append_outbox(&mut self, event: &OutboxEvent) -> StoreResult<()> {
        // Numbers are not used again, also not those of removed rows.
        self.last_seq += 1;
        let OutboxEvent { topic, key, correlation_id, payload, .. } = event.clone();
        let (seq, topic) = (self.last_seq, topic.to_owned());
        self.outbox.insert(seq, OutboxRow { seq, topic, key, correlation_id, payload });
        Ok(())
    }

    fn remove_outbox(&mut self, seqs: &[i64]) -> StoreResult<usize> {
        // A number given twice counts once, as in SQL.
        let seqs: BTreeSet<_> = seqs.iter().collect();
        Ok(seqs.into_iter().filter(|seq| self.outbox.remove(seq).is_some()).count())
    }

    fn insert_handle(&mut self, sha256: &str, task: &TaskId, principal: &str) -> StoreResult<()> {
        self.handles.insert(sha256.to_owned(), (task.clone(), principal.to_owned()));
        Ok(())
    }
}
