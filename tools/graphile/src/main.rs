//! Measures graphile_worker with tasks that do nothing: `skillhost-graphile TASKS PORT FETCHED` uses
//! the PostgreSQL server on a port of this machine and writes one JSON object with the milliseconds of
//! their submission and of their execution.
//!
//! Jobs are submitted and completed in batches, its fastest configuration, and fetched `FETCHED` at
//! once: so many wait for the end of its timeout if the process is killed.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, WorkerContext,
    WorkerOptions,
};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use tokio::sync::Notify;

/// The number of tasks that are submitted in one transaction.
const SUBMITTED_AT_ONCE: usize = 1_000;
/// The tasks that run at once, as many as in the store that it is compared with.
const WORKERS: usize = 512;
/// The delay in which the ends of tasks are collected.
const BATCH_DELAY: Duration = Duration::from_millis(5);

/// The executions so far.
#[derive(Clone, Debug)]
struct ExecutedTasks {
    count: Arc<AtomicUsize>,
    wanted: usize,
    all: Arc<Notify>,
}

/// A task that does nothing.
#[derive(Deserialize, Serialize)]
struct EmptyTask {}

impl TaskHandler for EmptyTask {
    const IDENTIFIER: &'static str = "nothing";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        if let Some(executed) = context.get_ext::<ExecutedTasks>()
            && executed.count.fetch_add(1, Ordering::Relaxed) + 1 == executed.wanted
        {
            executed.all.notify_one();
        }
        Ok::<(), String>(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: skillhost-graphile TASKS PORT FETCHED";
    let mut arguments = std::env::args().skip(1);
    let tasks: usize = arguments.next().ok_or(usage)?.parse()?;
    let port: u16 = arguments.next().ok_or(usage)?.parse()?;
    let fetched: usize = arguments.next().ok_or(usage)?.parse()?;
    let options = PgConnectOptions::new().host("127.0.0.1").port(port);
    let options = options.username("operator").database("postgres");
    let pool = PgPoolOptions::new().max_connections(16).connect_with(options).await?;

    let executed = ExecutedTasks { count: Arc::default(), wanted: tasks, all: Arc::default() };
    let worker = WorkerOptions::default()
        .pg_pool(pool.clone())
        .schema("graphile_worker")
        .concurrency(WORKERS)
        .poll_interval(Duration::from_millis(5))
        .local_queue(LocalQueueConfig::default().with_size(fetched))
        .complete_job_batch_delay(BATCH_DELAY)
        .add_extension(executed.clone())
        .define_job::<EmptyTask>()
        .init()
        .await?;
    let utils = worker.create_utils();
    let start = Instant::now();
    for first in (0..tasks).step_by(SUBMITTED_AT_ONCE) {
        let job = || RawJobSpec {
            identifier: EmptyTask::IDENTIFIER.to_owned(),
            payload: serde_json::json!({}),
            spec: JobSpec::default(),
        };
        let count = SUBMITTED_AT_ONCE.min(tasks - first);
        let jobs: Vec<_> = std::iter::repeat_with(job).take(count).collect();
        utils.add_raw_jobs(&jobs).await?;
    }
    let submitted = start.elapsed();

    let start = Instant::now();
    let worker = Arc::new(worker);
    let working = tokio::spawn({
        let worker = Arc::clone(&worker);
        async move { worker.run().await.map_err(|error| error.to_string()) }
    });
    executed.all.notified().await;
    // The last ends are stored after the executions.
    while count_jobs(&pool).await? > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let drained = start.elapsed();
    worker.request_shutdown();
    working.await??;
    let figures = serde_json::json!({
        "tasks": tasks,
        "submit_ms": submitted.as_secs_f64() * 1e3,
        "drain_ms": drained.as_secs_f64() * 1e3,
    });
    println!("{figures}");
    Ok(())
}

async fn count_jobs(pool: &PgPool) -> Result<i64, Box<dyn Error>> {
    let query = sqlx::query_scalar("SELECT count(*) FROM graphile_worker._private_jobs");
    Ok(query.fetch_one(pool).await?)
}
