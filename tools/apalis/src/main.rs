//! Measures apalis-sqlite with tasks that do nothing: `skillhost-apalis TASKS BATCH` writes one JSON
//! object with the milliseconds of their submission and of their execution.
//!
//! Every commit is synchronized with the disk, as in the store that it is compared with. Rows are not
//! locked a second time when a task starts: the fetch has marked them already.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use apalis::prelude::*;
use apalis_sqlite::{Config, SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteStorage};
use tokio::sync::Notify;

/// The number of tasks that are submitted in one transaction.
const SUBMITTED_AT_ONCE: usize = 1_000;

/// The interval at which the worker looks for tasks and for ends to store. Without one it waits for
/// its next heartbeat once a fetch was empty.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The executions so far.
#[derive(Clone)]
struct ExecutedTasks {
    count: Arc<AtomicUsize>,
    wanted: usize,
    all: Arc<Notify>,
}

async fn do_nothing(_: usize, executed: Data<ExecutedTasks>) -> Result<(), BoxDynError> {
    if executed.count.fetch_add(1, Ordering::Relaxed) + 1 == executed.wanted {
        executed.all.notify_one();
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: skillhost-apalis TASKS BATCH";
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let (tasks, batch) = (numbers.next().ok_or(usage)??, numbers.next().ok_or(usage)??);
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("jobs.db");
    let pool = open_pool(&path).await?;

    let config = Config::default().queue("bench").batch_size(batch).lock_tasks(false);
    let mut storage = SqliteStorage::<usize>::new(&pool).with_config(config);
    let start = Instant::now();
    for first in (0..tasks).step_by(SUBMITTED_AT_ONCE) {
        let last = (first + SUBMITTED_AT_ONCE).min(tasks);
        storage.push_bulk((first..last).collect()).await?;
    }
    let submitted = start.elapsed();

    let executed = ExecutedTasks { count: Arc::default(), wanted: tasks, all: Arc::default() };
    let worker = WorkerBuilder::new("bench")
        .backend(storage.poll_with_interval(POLL_INTERVAL))
        .data(executed.clone())
        .parallelize(tokio::spawn)
        .build(do_nothing);
    let start = Instant::now();
    let working = tokio::spawn(worker.run());
    executed.all.notified().await;
    // The last ends are stored after the executions.
    while count_done(&pool).await? < tasks {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let drained = start.elapsed();
    working.abort();
    let figures = serde_json::json!({
        "tasks": tasks,
        "batch": batch,
        "submit_ms": submitted.as_secs_f64() * 1e3,
        "drain_ms": drained.as_secs_f64() * 1e3,
    });
    println!("{figures}");
    Ok(())
}

/// Creates the file and opens it with a durability that a power failure does not break.
async fn open_pool(path: &std::path::Path) -> Result<SqlitePool, Box<dyn Error>> {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    // The set-up switches the synchronization off, for its own connection only.
    let setup = SqlitePoolOptions::new().max_connections(1).connect_with(options.clone()).await?;
    SqliteStorage::setup(&setup).await?;
    setup.close().await;
    let options = options.pragma("journal_mode", "WAL").pragma("synchronous", "FULL");
    let pool = SqlitePoolOptions::new().connect_with(options).await?;
    let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&pool).await?;
    if synchronous != 2 {
        return Err(format!("commits are not synchronized: {synchronous}").into());
    }
    Ok(pool)
}

async fn count_done(pool: &SqlitePool) -> Result<usize, Box<dyn Error>> {
    let query = sqlx::query_scalar("SELECT count(*) FROM Jobs WHERE status = 'Done'");
    let count: i64 = query.fetch_one(pool).await?;
    Ok(usize::try_from(count)?)
}
