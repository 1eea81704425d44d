//! The tables, and their migration.

use tokio_postgres::Client;

use super::failure::StatementFailure;
use crate::error::{QueueError, QueueErrorKind};

/// The migrations; the version of a schema is the number of those that it has.
const MIGRATIONS: [&str; 1] = [include_str!("schema_1.sql")];
/// The oldest server with `pg_xact_status` for its transaction ids.
const MIN_SERVER: i32 = 130_000;

/// Creates the schema, or migrates it to this program's version. Several programs may call it at
/// once.
///
/// # Errors
/// [`QueueErrorKind::Newer`] if a newer program has migrated it; an error of the database.
pub(super) async fn migrate(client: &mut Client, schema: &str) -> Result<(), QueueError> {
    let server: i32 = one(client, "SELECT current_setting('server_version_num')::int", &[]).await?;
    if server < MIN_SERVER {
        let message = format!("PostgreSQL {}.{} is too old", server / 10_000, server % 10_000);
        let hint = "use PostgreSQL 13 or later";
        return Err(QueueError::new(QueueErrorKind::Database, message, hint));
    }
    // A role that may not create tables can use a schema of the present version.
    if read_version(client).await? == Some(MIGRATIONS.len()) {
        return Ok(());
    }
    migrate_locked(client, schema).await
}

async fn migrate_locked(client: &mut Client, schema: &str) -> Result<(), QueueError> {
    let transaction = client.transaction().await.map_err(to_queue_error)?;
    let key = format!("skillhost-tasks {schema}");
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
    transaction.execute(lock, &[&key]).await.map_err(to_queue_error)?;
    // `CREATE SCHEMA IF NOT EXISTS` requires a right on the database even if the schema exists.
    let exists = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)";
    let exists: bool = one(transaction.client(), exists, &[&schema]).await?;
    if !exists {
        let create = format!("CREATE SCHEMA \"{schema}\"");
        transaction.batch_execute(&create).await.map_err(to_queue_error)?;
    }
    let version = match read_version(transaction.client()).await? {
        Some(version) => version,
        None => {
            let tables = "SELECT count(*) FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
                          WHERE nspname = $1";
            let tables: i64 = one(transaction.client(), tables, &[&schema]).await?;
            // Its tables may have the same names with other columns.
            if tables > 0 {
                let message = format!("schema `{schema}` contains tables of another program");
                let hint = "choose the name of a schema that does not exist";
                return Err(QueueError::new(QueueErrorKind::Database, message, hint));
            }
            0
        }
    };
    let Some(missing) = MIGRATIONS.get(version..) else {
        let message = format!("schema `{schema}` has version {version}, which is newer");
        let hint = "update skillhost on this machine";
        return Err(QueueError::new(QueueErrorKind::Newer, message, hint));
    };
    // In the transaction of the lock: a failed migration leaves the schema as it was.
    for migration in missing {
        transaction.batch_execute(migration).await.map_err(to_queue_error)?;
    }
    let version = i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX);
    let store = "UPDATE schema_version SET version = $1";
    transaction.execute(store, &[&version]).await.map_err(to_queue_error)?;
    transaction.commit().await.map_err(to_queue_error)
}

/// Returns the version of the schema in the search path, or `None` if it has none.
async fn read_version(client: &Client) -> Result<Option<usize>, QueueError> {
    let table = "SELECT to_regclass(quote_ident(current_schema()) || '.schema_version') IS NOT NULL
                 AND current_schema() IS NOT NULL";
    if !one::<bool>(client, table, &[]).await? {
        return Ok(None);
    }
    let version: i32 = one(client, "SELECT version FROM schema_version", &[]).await?;
    Ok(Some(usize::try_from(version).unwrap_or(0)))
}

async fn one<T: for<'a> tokio_postgres::types::FromSql<'a>>(
    client: &Client,
    statement: &str,
    parameters: &[&(dyn tokio_postgres::types::ToSql + Sync)],
) -> Result<T, QueueError> {
    let row = client.query_one(statement, parameters).await.map_err(to_queue_error)?;
    row.try_get(0).map_err(to_queue_error)
}

fn to_queue_error(error: tokio_postgres::Error) -> QueueError {
    StatementFailure::from(error).error
}
