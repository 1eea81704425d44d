//! Statements that several parts of the store execute.

use deadpool_postgres::Object;
use futures::future::join3;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::failure::StatementFailure;
use super::stored_text::from_bigint;

/// The parameters of a statement.
pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Locks the open subtasks of tasks.
pub(super) const CHILDREN: &str = "SELECT doc FROM tasks WHERE parent = ANY ($1::text[])
    AND state IN ('ready', 'running', 'waiting') ORDER BY id FOR UPDATE";
/// Locks the tasks that wait for tasks.
pub(super) const WAITING: &str = "SELECT doc FROM tasks
    WHERE state = 'waiting' AND waits_for && $1::text[] ORDER BY id FOR UPDATE";
/// Locks the open questions of tasks.
pub(super) const OPEN_QUESTIONS: &str = "SELECT doc FROM questions
    WHERE task = ANY ($1::text[]) AND state = 'open' ORDER BY id FOR UPDATE";

/// Let the server find the first rows of an order by the index that has it, instead of sorting all of
/// them, which it prefers in a table without statistics. For one transaction at most.
const WITHOUT_SORT: (&str, &str) = ("SET LOCAL enable_sort = off", "SET LOCAL enable_sort = on");

/// Executes a query whose order is that of an index, in one round trip.
pub(super) async fn query_first_rows(
    client: &Object,
    statement: &str,
    parameters: Parameters<'_>,
) -> Result<Vec<Row>, StatementFailure> {
    let statement = client.prepare_cached(statement).await?;
    let (begun, found, ended) = join3(
        client.batch_execute(WITHOUT_SORT.0),
        client.query(&statement, parameters),
        client.batch_execute(WITHOUT_SORT.1),
    )
    .await;
    begun?;
    let found = found?;
    ended?;
    Ok(found)
}

/// Executes a query.
pub(super) async fn query_rows(
    client: &Object,
    statement: &str,
    parameters: Parameters<'_>,
) -> Result<Vec<Row>, StatementFailure> {
    let statement = client.prepare_cached(statement).await?;
    Ok(client.query(&statement, parameters).await?)
}

/// Decodes the column `doc`.
pub(super) fn decode_doc<T: DeserializeOwned>(row: &Row) -> Result<T, StatementFailure> {
    let doc: &str = row.try_get("doc")?;
    serde_json::from_str(doc)
        .map_err(|error| StatementFailure::corrupt(format!("row of the queue: {error}")))
}

/// Returns the time of the server's clock.
pub(super) fn decode_time(row: &Row) -> Result<u64, StatementFailure> {
    Ok(from_bigint(row.try_get(0)?))
}
