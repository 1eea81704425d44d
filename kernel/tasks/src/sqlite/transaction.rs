//! The rows of the state machine in a transaction of SQLite.

use rusqlite::{Connection, OptionalExtension as _, Params, params};

use super::failure::damage_error;
use super::rows::{
    JsonColumn, WordColumn, limit_to_sql, question_from_row, task_from_row, to_sql, word_column,
};
use super::statements as sql;
use crate::ids::TaskId;
use crate::operation::ClaimFilter;
use crate::question::Question;
use crate::store::{OutboxEvent, OverdueLimits, StoreResult, StoreTransaction};
use crate::task::{Task, TaskKind};

/// An open transaction of a connection.
pub(super) struct SqliteTransaction<'a> {
    pub(super) conn: &'a Connection,
}

impl SqliteTransaction<'_> {
    fn run(&self, statement: &str, values: impl Params) -> StoreResult<usize> {
        Ok(self.conn.prepare_cached(statement)?.execute(values)?)
    }

    fn load_task(&self, statement: &str, values: impl Params) -> StoreResult<Option<Task>> {
        let mut statement = self.conn.prepare_cached(statement)?;
        Ok(statement.query_row(values, task_from_row).optional()?)
    }

    fn load_tasks(&self, statement: &str, values: impl Params) -> StoreResult<Vec<Task>> {
        let mut statement = self.conn.prepare_cached(statement)?;
        let rows = statement.query_map(values, task_from_row)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn load_questions(&self, statement: &str, values: impl Params) -> StoreResult<Vec<Question>> {
        let mut statement = self.conn.prepare_cached(statement)?;
        let rows = statement.query_map(values, question_from_row)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Returns the number of rows that the connection has changed so far.
    pub(super) fn change_count(&self) -> u64 {
        self.conn.total_changes()
    }

    /// Adds the due tasks of one priority that a filter matches, up to a limit.
    fn add_claimable(
        &self,
        found: &mut Vec<Task>,
        filter: &ClaimFilter,
        priority: i64,
        now_ms: u64,
        limit: usize,
    ) -> StoreResult<()> {
        let mut statement = self.conn.prepare_cached(&sql::CLAIMABLE_TASKS)?;
        let mut rows = statement.query(params![priority, to_sql(now_ms)])?;
        while found.len() < limit {
            let Some(row) = rows.next()? else { break };
            let (kind, target) = (word_column::<TaskKind>(row, 1)?, row.get_ref(2)?);
            if filter.matches(kind, target.as_str().map_err(rusqlite::Error::from)?) {
                found.push(task_from_row(row)?);
            }
        }
        Ok(())
    }
}

impl StoreTransaction for SqliteTransaction<'_> {
    fn task(&mut self, id: &TaskId) -> StoreResult<Option<Task>> {
        self.load_task(&sql::TASK, [id])
    }

    fn task_by_key(&mut self, scope: &str, key: &str) -> StoreResult<Option<Task>> {
        self.load_task(&sql::TASK_BY_KEY, [scope, key])
    }

    fn retry_of(&mut self, id: &TaskId) -> StoreResult<Option<Task>> {
        self.load_task(&sql::TASK_BY_RETRY, [id])
    }

    fn input(&mut self, id: &TaskId) -> StoreResult<String> {
        let mut statement = self.conn.prepare_cached(sql::INPUT)?;
        // Not an unknown task: the state machine asks for inputs of tasks that it has loaded.
        let found = statement.query_row([id], |row| row.get(0)).optional()?;
        found.ok_or_else(|| damage_error(&format!("task `{id}` has no input")))
    }

    fn open_children(&mut self, id: &TaskId) -> StoreResult<Vec<Task>> {
        self.load_tasks(&sql::OPEN_CHILDREN, [id])
    }

    fn count_open(&mut self, root: &TaskId) -> StoreResult<usize> {
        let mut statement = self.conn.prepare_cached(sql::COUNT_OPEN)?;
        let count: i64 = statement.query_row([root], |row| row.get(0))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    fn waiting_for(&mut self, id: &TaskId) -> StoreResult<Vec<Task>> {
        self.load_tasks(&sql::WAITING_FOR, [id])
    }

    fn claimable(
        &mut self,
        filter: &ClaimFilter,
        now_ms: u64,
        limit: usize,
    ) -> StoreResult<Vec<Task>> {
        let mut found = Vec::new();
        let mut above = i64::from(i32::MAX) + 1;
        let mut next_priority = self.conn.prepare_cached(sql::NEXT_PRIORITY)?;
        // One range per priority: tasks that are not due yet are not visited.
        while found.len() < limit {
            let next = next_priority.query_row([above], |row| row.get(0)).optional()?;
            let Some(priority) = next else { break };
            self.add_claimable(&mut found, filter, priority, now_ms, limit)?;
            above = priority;
        }
        Ok(found)
    }

    fn overdue(&mut self, limits: &OverdueLimits, limit: usize) -> StoreResult<Vec<Task>> {
        self.load_tasks(
            &sql::OVERDUE_TASKS,
            params![
                to_sql(limits.now_ms),
                to_sql(limits.latest_lease_ms),
                to_sql(limits.latest_pause_ms),
                limits.all_running,
                limit_to_sql(limit),
            ],
        )
    }

    fn question(&mut self, id: &str) -> StoreResult<Option<Question>> {
        Ok(self.load_questions(&sql::QUESTION, [id])?.pop())
    }

    fn question_by_call(
        &mut self,
        task: Option<&TaskId>,
        thread: Option<&str>,
        call: &str,
    ) -> StoreResult<Option<Question>> {
        let mut found = match task {
            Some(task) => self.load_questions(&sql::QUESTION_OF_TASK, params![task, call])?,
            None => self.load_questions(&sql::QUESTION_OF_THREAD, params![thread, call])?,
        };
        Ok(found.pop())
    }

    fn open_questions_of_task(&mut self, task: &TaskId) -> StoreResult<Vec<Question>> {
        self.load_questions(&sql::OPEN_QUESTIONS_OF_TASK, [task])
    }

    fn open_questions_of_thread(&mut self, thread: &str) -> StoreResult<Vec<Question>> {
        self.load_questions(&sql::OPEN_QUESTIONS_OF_THREAD, [thread])
    }

    fn open_questions_until(&mut self, opened_ms: u64, limit: usize) -> StoreResult<Vec<Question>> {
        let values = [to_sql(opened_ms), limit_to_sql(limit)];
        self.load_questions(&sql::OPEN_QUESTIONS_UNTIL, values)
    }

    fn insert_task(&mut self, task: &Task, input: &str) -> StoreResult<()> {
        self.run(
            &sql::INSERT_TASK,
            params![
                task.id,
                task.kind,
                task.target,
                task.title,
                task.input_sha256,
                task.state,
                task.lane,
                task.priority,
                to_sql(task.due_ms),
                task.is_backoff,
                task.deadline_ms.map(to_sql),
                task.attempt,
                task.stalled,
                task.retries,
                to_sql(task.epoch),
                task.worker,
                task.lease_ms.map(to_sql),
                JsonColumn(&task.budget),
                JsonColumn(&task.spent),
                JsonColumn(&task.reserved),
                task.parent,
                task.root,
                task.depth,
                JsonColumn(&task.waits),
                task.scope,
                task.key,
                WordColumn(task.submitter.origin),
                task.submitter.agent,
                task.submitter.thread,
                task.submitter.principal,
                task.submitter.correlation_id,
                WordColumn(task.on_end),
                JsonColumn(&task.progress),
                task.cancel,
                JsonColumn(&task.outcome),
                task.retry_of,
                to_sql(task.lines),
                to_sql(task.created_ms),
                task.started_ms.map(to_sql),
                to_sql(task.changed_ms),
                task.ended_ms.map(to_sql),
            ],
        )?;
        self.run(sql::INSERT_INPUT, params![self.conn.last_insert_rowid(), input])?;
        Ok(())
    }

    fn update_task(&mut self, task: &Task) -> StoreResult<()> {
        self.run(
            sql::UPDATE_TASK,
            params![
                task.id,
                task.state,
                to_sql(task.due_ms),
                task.is_backoff,
                task.attempt,
                task.stalled,
                task.retries,
                to_sql(task.epoch),
                task.worker,
                task.lease_ms.map(to_sql),
                JsonColumn(&task.spent),
                JsonColumn(&task.reserved),
                JsonColumn(&task.waits),
                JsonColumn(&task.progress),
                task.cancel,
                JsonColumn(&task.outcome),
                to_sql(task.lines),
                task.started_ms.map(to_sql),
                to_sql(task.changed_ms),
                task.ended_ms.map(to_sql),
            ],
        )?;
        Ok(())
    }

    fn append_lines(
        &mut self,
        task: &TaskId,
        epoch: u64,
        first: u64,
        lines: &[String],
    ) -> StoreResult<()> {
        for (seq, line) in (first..).zip(lines) {
            self.run(sql::INSERT_LINE, params![task, to_sql(seq), to_sql(epoch), line])?;
        }
        Ok(())
    }

    fn copy_lines(&mut self, from: &TaskId, to: &TaskId) -> StoreResult<u64> {
        Ok(self.run(sql::COPY_LINES, params![from, to])? as u64)
    }

    fn begin_attempt(&mut self, task: &Task, now_ms: u64) -> StoreResult<()> {
        let worker = task.worker.as_deref().unwrap_or_default();
        let values = params![task.id, to_sql(task.epoch), worker, to_sql(now_ms)];
        self.run(sql::INSERT_ATTEMPT, values)?;
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
        let values = params![task, to_sql(epoch), to_sql(now_ms), how, error];
        self.run(sql::UPDATE_ATTEMPT, values)?;
        Ok(())
    }

    fn insert_question(&mut self, question: &Question) -> StoreResult<()> {
        self.run(
            &sql::INSERT_QUESTION,
            params![
                question.id,
                question.task,
                question.thread,
                WordColumn(question.kind),
                question.asker,
                question.call,
                question.title,
                question.subject,
                question.digest,
                serde_json::json!(question.options).to_string(),
                WordColumn(question.state),
                question.choice,
                question.reason,
                JsonColumn(&question.decider),
                to_sql(question.opened_ms),
                question.closed_ms.map(to_sql),
            ],
        )?;
        Ok(())
    }

    fn update_question(&mut self, question: &Question) -> StoreResult<()> {
        self.run(
            sql::UPDATE_QUESTION,
            params![
                question.id,
                WordColumn(question.state),
                question.choice,
                question.reason,
                JsonColumn(&question.decider),
                question.closed_ms.map(to_sql),
            ],
        )?;
        Ok(())
    }

    fn append_outbox(&mut self, event: &OutboxEvent) -> StoreResult<()> {
        let OutboxEvent { topic, key, correlation_id, payload, .. } = event;
        self.run(sql::INSERT_OUTBOX, params![topic, key, correlation_id, payload])?;
        Ok(())
    }

    fn remove_outbox(&mut self, seqs: &[i64]) -> StoreResult<usize> {
        let mut count = 0;
        for seq in seqs {
            count += self.run(sql::DELETE_OUTBOX, [seq])?;
        }
        Ok(count)
    }

    fn insert_handle(&mut self, sha256: &str, task: &TaskId, principal: &str) -> StoreResult<()> {
        self.run(sql::INSERT_HANDLE, params![sha256, task, principal])?;
        Ok(())
    }
}
