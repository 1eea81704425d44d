//! Reads outside of transactions of the state machine.

use deadpool_postgres::Object;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::failure::StatementFailure;
use super::statement::{decode_doc, decode_time, query_rows};
use super::stored_text::{decode_text, encode_text, from_bigint, to_bigint};
use super::write_buffer::question_state;
use crate::queue::{OutboxRow, QueryResult, TaskAttempt, TaskFilter, TaskLine, TaskQuery};
use crate::task::{Task, TaskState};

/// The number of tasks of a list without a limit.
const DEFAULT_LIMIT: usize = 100;

/// A condition with its parameters; each statement has only those that apply, so that the server
/// can use an index.
#[derive(Default)]
struct Conditions {
    text: String,
    values: Vec<Box<dyn ToSql + Sync + Send>>,
}

impl Conditions {
    /// Adds a condition; `$$` is its parameter.
    fn add(&mut self, condition: &str, value: impl ToSql + Sync + Send + 'static) {
        self.values.push(Box::new(value));
        self.text.push_str(if self.text.is_empty() { " WHERE " } else { " AND " });
        self.text.push_str(&condition.replace("$$", &format!("${}", self.values.len())));
    }

    /// Executes a query.
    async fn query(
        mut self,
        client: &Object,
        select: &str,
        order: &str,
        limit: usize,
    ) -> Result<Vec<Row>, StatementFailure> {
        self.values.push(Box::new(i64::try_from(limit).unwrap_or(i64::MAX)));
        let text = format!("{select}{} {order} LIMIT ${}", self.text, self.values.len());
        let values: Vec<&(dyn ToSql + Sync)> =
            self.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
        query_rows(client, &text, &values).await
    }
}

/// Answers a query of a home.
pub(super) async fn answer_query(
    client: &Object,
    query: TaskQuery,
    home: &str,
) -> Result<QueryResult, StatementFailure> {
    Ok(match query {
        TaskQuery::Task(id) => QueryResult::Tasks(find_task(client, id.as_str()).await?),
        TaskQuery::Tasks(filter) => QueryResult::Tasks(list_tasks(client, &filter).await?),
        TaskQuery::Input(id) => {
            let found =
                query_rows(client, "SELECT input FROM tasks WHERE id = $1", &[&id.as_str()])
                    .await?;
            QueryResult::Text(found.first().map(|row| decode_text(row.get(0))))
        }
        TaskQuery::Lines { task, after, limit } => {
            let mut conditions = Conditions::default();
            conditions.add("task = $$", task.as_str().to_owned());
            conditions.add("seq >= $$", to_bigint(after));
            let select = "SELECT seq, epoch, line FROM lines";
            let found = conditions.query(client, select, "ORDER BY seq", limit).await?;
            QueryResult::Lines(found.iter().map(decode_line).collect())
        }
        TaskQuery::Attempts(id) => {
            let statement = "SELECT epoch, worker, began_ms, ended_ms, how, error FROM attempts
                WHERE task = $1 ORDER BY epoch";
            let found = query_rows(client, statement, &[&id.as_str()]).await?;
            QueryResult::Attempts(found.iter().map(decode_attempt).collect())
        }
        TaskQuery::Question(id) => {
            let mut conditions = Conditions::default();
            conditions.add("id = $$", encode_text(&id).into_owned());
            QueryResult::Questions(list_questions(client, conditions, 1).await?)
        }
        TaskQuery::Questions { state, kind, task, thread, limit } => {
            let mut conditions = Conditions::default();
            match state {
                // The text itself, so that the index of open questions serves.
                Some(crate::QuestionState::Open) => conditions.add("state = 'open' AND $$", true),
                Some(state) => conditions.add("state = $$", question_state(state)),
                None => {}
            }
            if let Some(kind) = kind {
                conditions.add("kind = $$", kind.as_str());
            }
            if let Some(task) = task {
                conditions.add("task = $$", task.as_str().to_owned());
            }
            if let Some(thread) = thread {
                let thread = encode_text(&thread).into_owned();
                conditions.add("md5(thread) = md5($$) AND thread = $$", thread);
            }
            QueryResult::Questions(list_questions(client, conditions, limit).await?)
        }
        TaskQuery::OwnQuestions { limit } => {
            let mut conditions = Conditions::default();
            conditions.add("state = 'open' AND home = $$", home.to_owned());
            QueryResult::Questions(list_questions(client, conditions, limit).await?)
        }
        TaskQuery::Outbox { limit } => {
            let select = "SELECT seq, topic, key, correlation_id, payload FROM outbox";
            let mut conditions = Conditions::default();
            conditions.add("home = $$", home.to_owned());
            let rows = conditions.query(client, select, "ORDER BY seq", limit).await?;
            QueryResult::Outbox(rows.iter().map(decode_outbox).collect())
        }
        TaskQuery::Counts => {
            let statement = "SELECT state, count(*) FROM tasks GROUP BY state";
            let rows = query_rows(client, statement, &[]).await?;
            let mut counts =
                rows.iter().map(decode_count).collect::<Result<Vec<(TaskState, u64)>, _>>()?;
            counts.sort();
            QueryResult::Counts(counts)
        }
        TaskQuery::Handle { sha256, principal } => {
            let statement = "SELECT t.doc FROM handles h JOIN tasks t ON t.id = h.task
                WHERE h.sha256 = $1 AND h.principal = $2";
            let parameters = [encode_text(&sha256), encode_text(&principal)];
            let found = query_rows(client, statement, &[&parameters[0], &parameters[1]]).await?;
            QueryResult::Tasks(found.iter().map(decode_doc).collect::<Result<_, _>>()?)
        }
        TaskQuery::NextDue => {
            // The column is limited to the numbers of the database, the row is not.
            let statement = "SELECT doc FROM tasks WHERE state = 'ready' ORDER BY due_ms LIMIT 1";
            let found = query_rows(client, statement, &[]).await?;
            let first: Option<Task> = found.first().map(decode_doc).transpose()?;
            QueryResult::Time(first.map(|task| task.due_ms))
        }
    })
}

async fn find_task(client: &Object, id: &str) -> Result<Vec<Task>, StatementFailure> {
    let found = query_rows(client, "SELECT doc FROM tasks WHERE id = $1", &[&id]).await?;
    found.iter().map(decode_doc).collect()
}

async fn list_tasks(client: &Object, filter: &TaskFilter) -> Result<Vec<Task>, StatementFailure> {
    let mut conditions = Conditions::default();
    if !filter.states.is_empty() {
        let states: Vec<_> = filter.states.iter().map(|state| state.as_str()).collect();
        conditions.add("state = ANY ($$::text[])", states);
    }
    if let Some(kind) = filter.kind {
        conditions.add("kind = $$", kind.as_str());
    }
    if let Some(root) = &filter.root {
        let root = root.as_str().to_owned();
        conditions.add("(id = $$ OR (root = $$ AND parent IS NOT NULL))", root);
    }
    if let Some(parent) = &filter.parent {
        conditions.add("parent = $$", parent.as_str().to_owned());
    }
    if let Some(thread) = &filter.thread {
        let thread = encode_text(thread).into_owned();
        conditions.add("md5(thread) = md5($$) AND thread = $$", thread);
    }
    if let Some(before) = &filter.before {
        conditions.add("id < $$", before.as_str().to_owned());
    }
    let limit = if filter.limit == 0 { DEFAULT_LIMIT } else { filter.limit };
    let select = "SELECT doc FROM tasks";
    let found = conditions.query(client, select, "ORDER BY id DESC", limit).await?;
    let tasks: Vec<Task> = found.iter().map(decode_doc).collect::<Result<_, _>>()?;
    // A task without a parent is its own root.
    // The condition above finds a subtask by its own id, too.
    let is_in_root = |task: &Task| filter.root.as_ref().is_none_or(|root| task.root == *root);
    Ok(tasks.into_iter().filter(is_in_root).collect())
}

async fn list_questions(
    client: &Object,
    conditions: Conditions,
    limit: usize,
) -> Result<Vec<crate::Question>, StatementFailure> {
    let select = "SELECT doc FROM questions";
    let found = conditions.query(client, select, "ORDER BY opened_ms, id", limit).await?;
    found.iter().map(decode_doc).collect()
}

fn decode_line(row: &Row) -> TaskLine {
    TaskLine {
        seq: from_bigint(row.get(0)),
        epoch: from_bigint(row.get(1)),
        line: decode_text(row.get(2)),
    }
}

fn decode_attempt(row: &Row) -> TaskAttempt {
    TaskAttempt {
        epoch: from_bigint(row.get(0)),
        worker: decode_text(row.get(1)),
        began_ms: from_bigint(row.get(2)),
        ended_ms: row.get::<_, Option<i64>>(3).map(from_bigint),
        how: row.get::<_, Option<String>>(4).map(decode_text),
        error: row.get::<_, Option<String>>(5).map(decode_text),
    }
}

fn decode_outbox(row: &Row) -> OutboxRow {
    OutboxRow {
        seq: row.get(0),
        topic: row.get(1),
        key: decode_text(row.get(2)),
        correlation_id: row.get::<_, Option<String>>(3).map(decode_text),
        payload: row.get(4),
    }
}

fn decode_count(row: &Row) -> Result<(TaskState, u64), StatementFailure> {
    let name: String = row.try_get(0)?;
    let state = serde_json::from_value(serde_json::Value::String(name))
        .map_err(|error| StatementFailure::corrupt(format!("state of a task: {error}")))?;
    Ok((state, from_bigint(row.try_get(1)?)))
}

/// Returns the time of the server, in milliseconds since 1970.
pub(super) async fn server_time(client: &Object) -> Result<u64, StatementFailure> {
    let statement = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let rows = query_rows(client, statement, &[]).await?;
    rows.first().map_or(Ok(0), decode_time)
}
