//! A transaction, as the state machine uses it.

use deadpool_postgres::Object;
use tokio::runtime::Handle;
use tokio_postgres::Row;

use super::failure::{FailureClass, StatementFailure};
use super::row_cache::{LoadedSet, RowCache};
use super::statement::{
    CHILDREN, OPEN_QUESTIONS, Parameters, WAITING, decode_doc, query_first_rows, query_rows,
};
use super::stored_text::{decode_text, encode_text, to_bigint};
use super::write_buffer::WriteBuffer;
use crate::error::{QueueError, QueueErrorKind};
use crate::ids::TaskId;
use crate::operation::ClaimFilter;
use crate::question::{Question, QuestionState};
use crate::queue::TaskAttempt;
use crate::store::{OutboxEvent, OverdueLimits, StoreResult, StoreTransaction, newest_question};
use crate::task::Task;

const BY_KEY: &str = "SELECT doc FROM tasks WHERE scope = $1 AND key = $2 FOR UPDATE";
const BY_RETRY: &str = "SELECT doc FROM tasks WHERE retry_of = $1 FOR UPDATE";
const INPUT: &str = "SELECT input FROM tasks WHERE id = $1";
const COUNT_OPEN: &str = "SELECT count(*) FROM tasks WHERE root = $1 AND parent IS NOT NULL
    AND state IN ('ready', 'running', 'waiting')";
/// Of each lane only the first open task, and none while another one of the lane runs.
const CLAIMABLE: &str = "SELECT id, doc, input, lane FROM tasks t
    WHERE state = 'ready' AND due_ms <= $1
    AND ($2 OR kind = ANY ($3::text[])
        OR (kind, target) IN (SELECT * FROM unnest($4::text[], $5::text[])))
    AND (lane IS NULL OR NOT EXISTS (SELECT FROM tasks o WHERE o.lane = t.lane
        AND o.state IN ('ready', 'running', 'waiting')
            AND o.id <> t.id AND (o.id < t.id OR o.state = 'running')))
    ORDER BY priority DESC, due_ms, id LIMIT $6 FOR UPDATE OF t SKIP LOCKED";
const LOCK_LANES: &str =
    "SELECT lane FROM lanes WHERE lane = ANY ($1::text[]) ORDER BY lane FOR UPDATE SKIP LOCKED";
/// Looked up again with the locks of the lanes.
const FIRST_OF_LANES: &str = "SELECT t.id FROM tasks t
    WHERE t.id = ANY ($1::text[]) AND t.lane = ANY ($2::text[])
    AND NOT EXISTS (SELECT FROM tasks o WHERE o.lane = t.lane AND o.id <> t.id
        AND o.state IN ('ready', 'running', 'waiting') AND (o.id < t.id OR o.state = 'running'))";
const OVERDUE: &str = "SELECT doc FROM tasks WHERE id IN (
        SELECT id FROM tasks WHERE state = 'running'
            AND ($1 OR lease_ms IS NULL OR lease_ms <= $2 OR lease_ms > $3)
        UNION SELECT id FROM tasks WHERE deadline_ms <= $2
            AND state IN ('ready', 'running', 'waiting')
        UNION SELECT id FROM tasks WHERE state = 'waiting' AND until_ms <= $2
        UNION SELECT id FROM tasks WHERE state = 'ready' AND is_backoff AND due_ms > $4)
    AND state IN ('ready', 'running', 'waiting')
    ORDER BY id LIMIT $5 FOR UPDATE SKIP LOCKED";
const QUESTION_OF_TASK: &str = "SELECT doc FROM questions
    WHERE task = $1 AND md5(call) = md5($2) AND call = $2
    ORDER BY state = 'open' DESC, id DESC LIMIT 1 FOR UPDATE";
const QUESTION_OF_THREAD: &str = "SELECT doc FROM questions
    WHERE task IS NULL AND md5(thread) = md5($1) AND thread = $1
    AND md5(call) = md5($2) AND call = $2
    ORDER BY state = 'open' DESC, id DESC LIMIT 1 FOR UPDATE";
const QUESTION_OF_COMMAND: &str = "SELECT doc FROM questions WHERE task IS NULL AND thread IS NULL
    AND call = $1 ORDER BY state = 'open' DESC, id DESC LIMIT 1 FOR UPDATE";
const OPEN_OF_THREAD: &str = "SELECT doc FROM questions WHERE task IS NULL
    AND md5(thread) = md5($1) AND thread = $1 AND state = 'open' ORDER BY id FOR UPDATE";
const OPEN_UNTIL: &str = "SELECT doc FROM questions WHERE state = 'open' AND opened_ms <= $1
    ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED";
const COPY_LINES: &str = "INSERT INTO lines (task, seq, epoch, line)
    SELECT $2, seq, 0, line FROM lines WHERE task = $1";
const REMOVE_OUTBOX: &str = "DELETE FROM outbox WHERE seq = ANY ($1::bigint[])";
const INSERT_HANDLE: &str = "INSERT INTO handles (sha256, task, principal) VALUES ($1, $2, $3)
    ON CONFLICT (sha256) DO UPDATE SET task = excluded.task, principal = excluded.principal";

/// A transaction of one connection.
pub(super) struct PostgresTransaction<'a> {
    handle: &'a Handle,
    client: &'a Object,
    home: &'a str,
    pub(super) rows: RowCache,
    buffer: WriteBuffer,
    failure: Option<StatementFailure>,
    has_written: bool,
    concerns_others: bool,
}

impl<'a> PostgresTransaction<'a> {
    /// Creates the transaction of a home, on a connection with an open transaction.
    pub(super) fn new(handle: &'a Handle, client: &'a Object, home: &'a str) -> Self {
        Self {
            handle,
            client,
            home,
            rows: RowCache::default(),
            buffer: WriteBuffer::default(),
            failure: None,
            has_written: false,
            concerns_others: false,
        }
    }

    /// Returns the failure of the database, if there was one; the transaction has to be rolled back.
    pub(super) fn take_failure(&mut self) -> Option<StatementFailure> {
        self.failure.take()
    }

    /// Returns whether the transaction has changed rows.
    pub(super) fn has_written(&self) -> bool {
        self.has_written
    }

    /// Returns whether other machines may wait for a change of this transaction.
    pub(super) fn concerns_others(&self) -> bool {
        self.concerns_others
    }

    /// Writes the changes so far.
    pub(super) fn flush(&mut self) -> StoreResult<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        // Set before: a failed statement may have written.
        self.has_written = true;
        self.concerns_others |= self.buffer.concerns_others();
        let outcome = self.handle.block_on(self.buffer.flush(self.client, &self.rows, self.home));
        self.check(outcome)
    }

    fn check<T>(&mut self, outcome: Result<T, StatementFailure>) -> StoreResult<T> {
        outcome.map_err(|failure| {
            let error = failure.error.clone();
            // The first failure is the cause; the server refuses all statements after it.
            self.failure.get_or_insert(failure);
            error
        })
    }

    fn query(&mut self, statement: &str, parameters: Parameters<'_>) -> StoreResult<Vec<Row>> {
        let found = self.handle.block_on(query_rows(self.client, statement, parameters));
        self.check(found)
    }

    fn execute(&mut self, statement: &str, parameters: Parameters<'_>) -> StoreResult<u64> {
        self.has_written = true;
        let outcome = self.handle.block_on(async {
            let statement = self.client.prepare_cached(statement).await?;
            Ok(self.client.execute(&statement, parameters).await?)
        });
        self.check(outcome)
    }

    /// Loads tasks; `doc` is their first column.
    fn load_tasks(
        &mut self,
        statement: &str,
        parameters: Parameters<'_>,
    ) -> StoreResult<Vec<Task>> {
        let found = self.query(statement, parameters)?;
        let tasks = found.iter().map(decode_doc).collect::<Result<Vec<Task>, _>>();
        let tasks = self.check(tasks)?;
        tasks.iter().for_each(|task| self.rows.add_task(task.clone()));
        Ok(tasks)
    }

    fn load_questions(
        &mut self,
        statement: &str,
        parameters: Parameters<'_>,
    ) -> StoreResult<Vec<Question>> {
        let found = self.query(statement, parameters)?;
        let questions = found.iter().map(decode_doc).collect::<Result<Vec<Question>, _>>();
        let questions = self.check(questions)?;
        questions.iter().for_each(|question| self.rows.add_question(question.clone()));
        Ok(questions)
    }

    /// Loads a set, unless it is loaded.
    fn load_set(
        &mut self,
        set: LoadedSet,
        statement: &str,
        parameters: Parameters<'_>,
    ) -> StoreResult<()> {
        if !self.rows.has_set(&set) {
            match set {
                LoadedSet::Questions(_) => drop(self.load_questions(statement, parameters)?),
                _ => drop(self.load_tasks(statement, parameters)?),
            }
            self.rows.mark_set(set);
        }
        Ok(())
    }

    /// Omits the tasks of lanes that another transaction has locked or used since.
    fn retain_first_of_lanes(
        &mut self,
        found: &mut Vec<(Task, Option<String>)>,
    ) -> StoreResult<()> {
        let lanes: Vec<String> = found.iter().filter_map(|(_, lane)| lane.clone()).collect();
        if lanes.is_empty() {
            return Ok(());
        }
        // A lane that another transaction has locked is left to it.
        let locked = self.query(LOCK_LANES, &[&lanes])?;
        let locked: Vec<String> = locked.iter().map(|row| row.get(0)).collect();
        // A statement after the lock sees what was committed until then.
        let in_lanes = found.iter().filter(|(_, lane)| lane.is_some());
        let ids: Vec<String> = in_lanes.map(|(task, _)| task.id.to_string()).collect();
        let first = self.query(FIRST_OF_LANES, &[&ids, &locked])?;
        let first: Vec<String> = first.iter().map(|row| row.get(0)).collect();
        found
            .retain(|(task, lane)| lane.is_none() || first.iter().any(|id| id == task.id.as_str()));
        Ok(())
    }
}

impl StoreTransaction for PostgresTransaction<'_> {
    fn task(&mut self, id: &TaskId) -> StoreResult<Option<Task>> {
        if let Some(known) = self.rows.task(id) {
            return Ok(known);
        }
        self.load_tasks(
            "SELECT doc FROM tasks WHERE id = $1 FOR UPDATE",
            &[&encode_text(id.as_str())],
        )?;
        self.rows.mark_task(id);
        Ok(self.rows.task(id).flatten())
    }

    fn task_by_key(&mut self, scope: &str, key: &str) -> StoreResult<Option<Task>> {
        let set = LoadedSet::Key(scope.to_owned(), key.to_owned());
        self.load_set(set, BY_KEY, &[&encode_text(scope), &encode_text(key)])?;
        let has_key = |task: &Task| task.scope == scope && task.key.as_deref() == Some(key);
        Ok(self.rows.select(has_key).pop())
    }

    fn retry_of(&mut self, id: &TaskId) -> StoreResult<Option<Task>> {
        self.load_set(LoadedSet::Retry(id.clone()), BY_RETRY, &[&id.as_str()])?;
        Ok(self.rows.select(|task| task.retry_of.as_ref() == Some(id)).pop())
    }

    fn input(&mut self, id: &TaskId) -> StoreResult<String> {
        if let Some(input) = self.rows.input(id) {
            return Ok(input.clone());
        }
        let found = self.query(INPUT, &[&id.as_str()])?;
        let row = found.first().ok_or_else(|| QueueError::task_not_found(id))?;
        let input = decode_text(row.get(0));
        self.rows.add_input(id, input.clone());
        Ok(input)
    }

    fn open_children(&mut self, id: &TaskId) -> StoreResult<Vec<Task>> {
        let set = LoadedSet::Children(id.clone());
        self.load_set(set, CHILDREN, &[&vec![id.as_str()]])?;
        Ok(self.rows.select(|task| task.parent.as_ref() == Some(id) && !task.state.is_terminal()))
    }

    fn count_open(&mut self, root: &TaskId) -> StoreResult<usize> {
        // Its lock excludes submissions below other tasks of the tree.
        self.task(root)?;
        self.flush()?;
        let found = self.query(COUNT_OPEN, &[&root.as_str()])?;
        let count: i64 = found.first().map_or(0, |row| row.get(0));
        Ok(usize::try_from(count).unwrap_or(0))
    }

    fn waiting_for(&mut self, id: &TaskId) -> StoreResult<Vec<Task>> {
        let set = LoadedSet::Waiting(id.clone());
        self.load_set(set, WAITING, &[&vec![id.as_str()]])?;
        Ok(self.rows.waiting_for(id))
    }

    fn claimable(
        &mut self,
        filter: &ClaimFilter,
        now_ms: u64,
        limit: usize,
    ) -> StoreResult<Vec<Task>> {
        self.flush()?;
        let is_all = filter.targets.is_empty();
        let of_kind = filter.targets.iter().filter(|(_, targets)| targets.is_none());
        let kinds: Vec<&str> = of_kind.map(|(kind, _)| kind.as_str()).collect();
        // Pairs instead of a product: each kind has targets of its own.
        let named = filter.targets.iter().flat_map(|(kind, targets)| {
            targets.iter().flatten().map(|target| (kind.as_str(), encode_text(target)))
        });
        let (named_kinds, targets): (Vec<_>, Vec<_>) = named.unzip();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let parameters: Parameters<'_> =
            &[&to_bigint(now_ms), &is_all, &kinds, &named_kinds, &targets, &limit];
        let query = query_first_rows(self.client, CLAIMABLE, parameters);
        let found = self.handle.block_on(query);
        let found = self.check(found)?;
        let mut due = Vec::with_capacity(found.len());
        for row in &found {
            let task: Task = self.check(decode_doc(row))?;
            self.rows.add_input(&task.id, decode_text(row.get("input")));
            due.push((task, row.get("lane")));
        }
        self.retain_first_of_lanes(&mut due)?;
        due.iter().for_each(|(task, _)| self.rows.add_task(task.clone()));
        Ok(due.into_iter().map(|(task, _)| task).collect())
    }

    fn overdue(&mut self, limits: &OverdueLimits, limit: usize) -> StoreResult<Vec<Task>> {
        self.flush()?;
        let [now, lease, pause] =
            [limits.now_ms, limits.latest_lease_ms, limits.latest_pause_ms].map(to_bigint);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let parameters: Parameters<'_> = &[&limits.all_running, &now, &lease, &pause, &limit];
        let mut found = self.load_tasks(OVERDUE, parameters)?;
        // A row that another transaction has just changed is returned as it is now.
        found.retain(|task| limits.contains(task));
        Ok(found)
    }

    fn question(&mut self, id: &str) -> StoreResult<Option<Question>> {
        if let Some(known) = self.rows.question(id) {
            return Ok(known);
        }
        self.load_questions(
            "SELECT doc FROM questions WHERE id = $1 FOR UPDATE",
            &[&encode_text(id)],
        )?;
        self.rows.mark_question(id);
        Ok(self.rows.question(id).flatten())
    }

    fn question_by_call(
        &mut self,
        task: Option<&TaskId>,
        thread: Option<&str>,
        call: &str,
    ) -> StoreResult<Option<Question>> {
        // Loaded each time: an earlier operation of the batch may have asked under another call.
        let stored = encode_text(call);
        match (task, thread) {
            (Some(task), _) => self.load_questions(QUESTION_OF_TASK, &[&task.as_str(), &stored])?,
            (None, Some(thread)) => {
                self.load_questions(QUESTION_OF_THREAD, &[&encode_text(thread), &stored])?
            }
            (None, None) => self.load_questions(QUESTION_OF_COMMAND, &[&stored])?,
        };
        Ok(newest_question(self.rows.select_questions(|question| {
            let is_same_origin = match task {
                Some(_) => question.task.as_ref() == task,
                None => question.task.is_none() && question.thread.as_deref() == thread,
            };
            is_same_origin && question.call == call
        })))
    }

    fn open_questions_of_task(&mut self, task: &TaskId) -> StoreResult<Vec<Question>> {
        let set = LoadedSet::Questions(task.clone());
        self.load_set(set, OPEN_QUESTIONS, &[&vec![task.as_str()]])?;
        Ok(self.rows.open_questions_of(task))
    }

    fn open_questions_of_thread(&mut self, thread: &str) -> StoreResult<Vec<Question>> {
        self.load_questions(OPEN_OF_THREAD, &[&encode_text(thread)])?;
        Ok(self.rows.select_questions(|question| {
            question.task.is_none()
                && question.thread.as_deref() == Some(thread)
                && question.state == QuestionState::Open
        }))
    }

    fn open_questions_until(&mut self, opened_ms: u64, limit: usize) -> StoreResult<Vec<Question>> {
        self.flush()?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.load_questions(OPEN_UNTIL, &[&to_bigint(opened_ms), &limit])
    }

    fn insert_task(&mut self, task: &Task, input: &str) -> StoreResult<()> {
        self.rows.add_input(&task.id, input.to_owned());
        self.rows.replace_task(task.clone());
        self.buffer.insert_task(&task.id, input);
        Ok(())
    }

    fn update_task(&mut self, task: &Task) -> StoreResult<()> {
        // The trigger of the table does not see two changes of one transaction.
        if self.rows.stored_task(&task.id).is_some_and(|stored| stored.state.is_terminal()) {
            let message = format!("terminal task `{}` was changed", task.id);
            let error = QueueError::new(QueueErrorKind::Database, message, "report this error");
            let failure = StatementFailure { class: FailureClass::Permanent, error };
            return self.check(Err(failure));
        }
        // A worker ends a cancelled run at once.
        self.concerns_others |= task.cancel.is_some();
        self.rows.replace_task(task.clone());
        self.buffer.update_task(&task.id);
        Ok(())
    }

    fn append_lines(
        &mut self,
        task: &TaskId,
        epoch: u64,
        first: u64,
        lines: &[String],
    ) -> StoreResult<()> {
        self.buffer.append_lines(task, epoch, first, lines);
        Ok(())
    }

    fn copy_lines(&mut self, from: &TaskId, to: &TaskId) -> StoreResult<u64> {
        // The lines of the old task may be in the buffer.
        self.flush()?;
        self.execute(COPY_LINES, &[&from.as_str(), &to.as_str()])
    }

    fn begin_attempt(&mut self, task: &Task, now_ms: u64) -> StoreResult<()> {
        let worker = task.worker.clone().unwrap_or_default();
        let attempt = TaskAttempt {
            epoch: task.epoch,
            worker,
            began_ms: now_ms,
            ended_ms: None,
            how: None,
            error: None,
        };
        self.buffer.begin_attempt(&task.id, attempt);
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
        let end = TaskAttempt {
            epoch,
            worker: String::new(),
            began_ms: 0,
            ended_ms: Some(now_ms),
            how: Some(how.to_owned()),
            error: error.map(str::to_owned),
        };
        self.buffer.end_attempt(task, end);
        Ok(())
    }

    fn insert_question(&mut self, question: &Question) -> StoreResult<()> {
        self.rows.replace_question(question.clone());
        self.buffer.insert_question(&question.id);
        Ok(())
    }

    fn update_question(&mut self, question: &Question) -> StoreResult<()> {
        self.rows.replace_question(question.clone());
        self.buffer.update_question(&question.id);
        Ok(())
    }

    fn append_outbox(&mut self, event: &OutboxEvent) -> StoreResult<()> {
        self.buffer.append_outbox(event);
        Ok(())
    }

    fn remove_outbox(&mut self, seqs: &[i64]) -> StoreResult<usize> {
        // Rows of this transaction have no numbers yet, so nothing has to be written before.
        let removed = self.execute(REMOVE_OUTBOX, &[&seqs])?;
        Ok(usize::try_from(removed).unwrap_or(usize::MAX))
    }

    fn insert_handle(&mut self, sha256: &str, task: &TaskId, principal: &str) -> StoreResult<()> {
        let values = [sha256, task.as_str(), principal].map(encode_text);
        self.execute(INSERT_HANDLE, &[&values[0], &values[1], &values[2]]).map(drop)
    }
}
