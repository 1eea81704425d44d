//! The queries of readers.

use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params, params_from_iter};

use super::rows::{
    QUESTION_COLUMNS, TASK_COLUMNS, WordColumn, attempt_from_row, from_sql, limit_to_sql,
    line_from_row, outbox_from_row, question_from_row, task_from_row, to_sql, word_column,
};
use super::statements;
use crate::ids::TaskId;
use crate::question::{Question, QuestionKind, QuestionState};
use crate::queue::{QueryResult, TaskFilter, TaskQuery};
use crate::store::StoreResult;
use crate::task::{Task, TaskState};

/// The number of tasks of a list without a limit.
const DEFAULT_LIMIT: usize = 100;

/// The next lower priority of a ready task, with the earliest due time of that priority.
pub(super) const NEXT_DUE: &str = "SELECT priority, due_ms FROM tasks INDEXED BY ready_tasks
    WHERE state = 'ready' AND priority < ?1 ORDER BY priority DESC, due_ms LIMIT 1";

/// Answers a query; without a connection as for an empty queue.
pub(super) fn answer_query(
    conn: Option<&Connection>,
    query: TaskQuery,
) -> StoreResult<QueryResult> {
    let Some(conn) = conn else { return Ok(empty_result(&query)) };
    Ok(match query {
        TaskQuery::Task(id) => {
            QueryResult::Tasks(load_rows(conn, &statements::TASK, &[&id], task_from_row)?)
        }
        TaskQuery::Tasks(filter) => QueryResult::Tasks(list_tasks(conn, &filter)?),
        TaskQuery::Input(id) => {
            let mut statement = conn.prepare_cached(statements::INPUT)?;
            QueryResult::Text(statement.query_row([id], |row| row.get(0)).optional()?)
        }
        TaskQuery::Lines { task, after, limit } => {
            let sql = "SELECT seq, epoch, line FROM lines WHERE task = ?1 AND seq >= ?2
                ORDER BY seq LIMIT ?3";
            let values = params![task, to_sql(after), limit_to_sql(limit)];
            QueryResult::Lines(load_rows(conn, sql, values, line_from_row)?)
        }
        TaskQuery::Attempts(id) => {
            let sql = "SELECT epoch, worker, began_ms, ended_ms, how, error FROM attempts
                WHERE task = ?1 ORDER BY epoch";
            QueryResult::Attempts(load_rows(conn, sql, &[&id], attempt_from_row)?)
        }
        TaskQuery::Question(id) => QueryResult::Questions(load_rows(
            conn,
            &statements::QUESTION,
            &[&id],
            question_from_row,
        )?),
        TaskQuery::Questions { state, kind, task, thread, limit } => {
            let thread = thread.as_deref();
            QueryResult::Questions(list_questions(conn, state, kind, task.as_ref(), thread, limit)?)
        }
        TaskQuery::OwnQuestions { limit } => {
            let open = Some(QuestionState::Open);
            QueryResult::Questions(list_questions(conn, open, None, None, None, limit)?)
        }
        TaskQuery::Outbox { limit } => {
            let sql = "SELECT seq, topic, key, correlation_id, payload FROM outbox
                ORDER BY seq LIMIT ?1";
            let limit = limit_to_sql(limit);
            QueryResult::Outbox(load_rows(conn, sql, &[&limit], outbox_from_row)?)
        }
        TaskQuery::Counts => {
            let sql = "SELECT state, count(*) FROM tasks GROUP BY state";
            let count =
                |row: &Row<'_>| Ok((word_column::<TaskState>(row, 0)?, from_sql(row.get(1)?)));
            let mut counts = load_rows(conn, sql, &[], count)?;
            counts.sort_unstable();
            QueryResult::Counts(counts)
        }
        TaskQuery::Handle { sha256, principal } => {
            let sql = format!(
                "SELECT {TASK_COLUMNS} FROM tasks WHERE id =
                 (SELECT task FROM handles WHERE sha256 = ?1 AND principal = ?2)"
            );
            QueryResult::Tasks(load_rows(conn, &sql, &[&sha256, &principal], task_from_row)?)
        }
        TaskQuery::NextDue => QueryResult::Time(next_due(conn)?),
    })
}

fn empty_result(query: &TaskQuery) -> QueryResult {
    match query {
        TaskQuery::Task(_) | TaskQuery::Tasks(_) | TaskQuery::Handle { .. } => {
            QueryResult::Tasks(Vec::new())
        }
        TaskQuery::Input(_) => QueryResult::Text(None),
        TaskQuery::Lines { .. } => QueryResult::Lines(Vec::new()),
        TaskQuery::Attempts(_) => QueryResult::Attempts(Vec::new()),
        TaskQuery::Question(_) | TaskQuery::Questions { .. } | TaskQuery::OwnQuestions { .. } => {
            QueryResult::Questions(Vec::new())
        }
        TaskQuery::Outbox { .. } => QueryResult::Outbox(Vec::new()),
        TaskQuery::Counts => QueryResult::Counts(Vec::new()),
        TaskQuery::NextDue => QueryResult::Time(None),
    }
}

fn load_rows<T>(
    conn: &Connection,
    sql: &str,
    values: &[&dyn ToSql],
    convert: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> StoreResult<Vec<T>> {
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map(values, convert)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn list_tasks(conn: &Connection, filter: &TaskFilter) -> StoreResult<Vec<Task>> {
    let mut list = ListQuery::default();
    if !filter.states.is_empty() {
        let states: Vec<_> = filter.states.iter().map(|state| list.bind(*state)).collect();
        list.conditions.push(format!("state IN ({})", states.join(", ")));
    }
    if let Some(kind) = filter.kind {
        list.require("kind =", kind);
    }
    if let Some(root) = &filter.root {
        // The outermost task itself is not in the index of those below it.
        let root = list.bind(root.clone());
        list.conditions.push(format!(
            "root = {root} AND id IN (SELECT {root} UNION ALL
             SELECT id FROM tasks WHERE root = {root} AND parent IS NOT NULL)"
        ));
    }
    if let Some(parent) = &filter.parent {
        list.require("parent =", parent.clone());
    }
    if let Some(thread) = &filter.thread {
        list.require("thread =", thread.clone());
    }
    if let Some(before) = &filter.before {
        list.require("id <", before.clone());
    }
    let limit = if filter.limit == 0 { DEFAULT_LIMIT } else { filter.limit };
    let limit = list.bind(limit_to_sql(limit));
    let sql = format!(
        "SELECT {TASK_COLUMNS} FROM tasks {} ORDER BY id DESC LIMIT {limit}",
        list.where_clause()
    );
    list.load(conn, &sql, task_from_row)
}

fn list_questions(
    conn: &Connection,
    state: Option<QuestionState>,
    kind: Option<QuestionKind>,
    task: Option<&TaskId>,
    thread: Option<&str>,
    limit: usize,
) -> StoreResult<Vec<Question>> {
    let mut list = ListQuery::default();
    match state {
        // As text: only then SQLite sees that the index of open questions fits.
        Some(QuestionState::Open) => list.conditions.push("state = 'open'".to_owned()),
        Some(state) => list.require("state =", WordColumn(state)),
        None => {}
    }
    if let Some(kind) = kind {
        list.require("kind =", WordColumn(kind));
    }
    if let Some(task) = task {
        list.require("task =", task.clone());
    }
    if let Some(thread) = thread {
        list.require("thread =", thread.to_owned());
    }
    let limit = list.bind(limit_to_sql(limit));
    let sql = format!(
        "SELECT {QUESTION_COLUMNS} FROM questions {} ORDER BY opened_ms, id LIMIT {limit}",
        list.where_clause()
    );
    list.load(conn, &sql, question_from_row)
}

/// Returns the earliest due time of a ready task.
fn next_due(conn: &Connection) -> StoreResult<Option<u64>> {
    let mut statement = conn.prepare_cached(NEXT_DUE)?;
    let mut above = i64::from(i32::MAX) + 1;
    let mut earliest: Option<u64> = None;
    loop {
        let to_pair = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let next: Option<(i64, i64)> = statement.query_row([above], to_pair).optional()?;
        let Some((priority, due_ms)) = next else { return Ok(earliest) };
        let due_ms = from_sql(due_ms);
        earliest = Some(earliest.map_or(due_ms, |found| found.min(due_ms)));
        above = priority;
    }
}

/// The conditions of a list, with their values.
#[derive(Default)]
struct ListQuery {
    conditions: Vec<String>,
    values: Vec<Box<dyn ToSql>>,
}

impl ListQuery {
    /// Adds a value; returns its name in the statement.
    fn bind(&mut self, value: impl ToSql + 'static) -> String {
        self.values.push(Box::new(value));
        format!("?{}", self.values.len())
    }

    /// Adds a condition that ends with a value.
    fn require(&mut self, comparison: &str, value: impl ToSql + 'static) {
        let name = self.bind(value);
        self.conditions.push(format!("{comparison} {name}"));
    }

    fn where_clause(&self) -> String {
        match self.conditions.is_empty() {
            true => String::new(),
            false => format!("WHERE {}", self.conditions.join(" AND ")),
        }
    }

    fn load<T>(
        &self,
        conn: &Connection,
        sql: &str,
        convert: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> StoreResult<Vec<T>> {
        let mut statement = conn.prepare_cached(sql)?;
        let rows = statement.query_map(params_from_iter(&self.values), convert)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}
