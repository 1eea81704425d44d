//! The task store: throughput, the delay of a start, and the claim in a file full of ended tasks.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde::Serialize;
use skillhost_tasks::{
    ClaimFilter, ClaimedTask, NewTask, QueueError, SqliteQueue, TaskAmounts, TaskKind, TaskOutcome,
    TaskQueue,
};

use crate::quantile;

/// The number of submissions that are under way at once.
const SUBMITTED_AT_ONCE: usize = 1_000;
/// The tasks that run at once: the largest number that settings accept.
pub(crate) const WORKERS: usize = 512;
const LEASE: Duration = Duration::from_secs(30);
/// The rounds of a delay.
const ROUNDS: usize = 400;
/// The number of ended tasks of the full file.
const ENDED_TASKS: usize = 1_000_000;

pub(crate) type BenchResult<T> = Result<T, Box<dyn std::error::Error>>;

/// The measurements. Times are medians where they have no other name.
#[derive(Debug, Serialize)]
pub(crate) struct TaskFigures {
    tasks: usize,
    submit_ms: f64,
    drain_ms: f64,
    /// The commit of one row.
    commit_us: f64,
    /// From the call of a submission to the start of its task, the commit of the submission
    /// included.
    submit_to_start_us: f64,
    /// From the reply to a submission to the start of its task.
    reply_to_start_us: f64,
    ended_tasks: usize,
    claim_empty_us: f64,
    claim_full_us: f64,
    page_of_100_us: f64,
}

pub(crate) fn measure(tasks: usize) -> BenchResult<TaskFigures> {
    let directory = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let queue = open_queue(&directory.path().join("throughput"));
        let (submit_ms, drain_ms) = measure_throughput(&queue, tasks).await?;
        let queue = open_queue(&directory.path().join("delays"));
        let delays = measure_delays(&queue).await?;
        let full = directory.path().join("full");
        let claims = measure_claims(&directory.path().join("empty"), &full).await?;
        let (commit_us, submit_to_start_us, reply_to_start_us) = delays;
        let (claim_empty_us, claim_full_us, page_of_100_us) = claims;
        Ok(TaskFigures {
            tasks,
            submit_ms,
            drain_ms,
            commit_us,
            submit_to_start_us,
            reply_to_start_us,
            ended_tasks: ENDED_TASKS,
            claim_empty_us,
            claim_full_us,
            page_of_100_us,
        })
    })
}

fn open_queue(directory: &Path) -> TaskQueue {
    TaskQueue::new(Arc::new(SqliteQueue::in_directory(directory)))
}

fn new_task() -> NewTask {
    NewTask::new(TaskKind::Tool, "nothing", "{}")
}

async fn claim_tasks(queue: &TaskQueue, limit: usize) -> Result<Vec<ClaimedTask>, QueueError> {
    queue.claim("bench", ClaimFilter::default(), limit, LEASE).await
}

async fn finish_task(queue: &TaskQueue, claimed: ClaimedTask) -> BenchResult<()> {
    let claim = claimed.task.current_claim().ok_or("a claimed task has a claim")?;
    let outcome = TaskOutcome::Completed { text: String::new(), structured: None, is_error: false };
    queue.finish(claim, outcome, TaskAmounts::default()).await?;
    Ok(())
}

/// Submits tasks, then claims and ends all of them; returns the milliseconds of both parts.
pub(crate) async fn measure_throughput(queue: &TaskQueue, tasks: usize) -> BenchResult<(f64, f64)> {
    let start = Instant::now();
    for first in (0..tasks).step_by(SUBMITTED_AT_ONCE) {
        let count = SUBMITTED_AT_ONCE.min(tasks - first);
        let submitted = join_all((0..count).map(|_| queue.submit(new_task()))).await;
        submitted.into_iter().collect::<Result<Vec<_>, _>>()?;
    }
    let submit_ms = to_ms(start.elapsed());
    let start = Instant::now();
    let mut ended = 0;
    // As the engine does: free workers claim, and the ends of their tasks share commits.
    let mut running = Vec::new();
    while ended < tasks {
        let (claimed, finished) = tokio::join!(
            claim_tasks(queue, WORKERS / 2),
            join_all(std::mem::take(&mut running).into_iter().map(|one| finish_task(queue, one)))
        );
        ended += finished.into_iter().collect::<Result<Vec<_>, _>>()?.len();
        running = claimed?;
    }
    Ok((submit_ms, to_ms(start.elapsed())))
}

/// Measures a commit, and the starts of single tasks by a waiting worker.
async fn measure_delays(queue: &TaskQueue) -> BenchResult<(f64, f64, f64)> {
    let (sender, mut started) = tokio::sync::mpsc::unbounded_channel();
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            loop {
                queue.store().wait_for_change(Duration::from_secs(5)).await;
                for claimed in claim_tasks(&queue, 1).await.unwrap_or_default() {
                    let _ = sender.send((Instant::now(), claimed));
                }
            }
        }
    });
    let (mut commits, mut calls, mut replies) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let called = Instant::now();
        queue.submit(new_task()).await?;
        let replied = Instant::now();
        let (began, claimed) = started.recv().await.ok_or("the worker ended")?;
        calls.push(to_us(began - called));
        replies.push(to_us(began.saturating_duration_since(replied)));
        let task = claimed.task.id.clone();
        finish_task(queue, claimed).await?;
        let start = Instant::now();
        queue.bind_handle(format!("{task}"), task, "bench".to_owned()).await?;
        commits.push(to_us(start.elapsed()));
    }
    worker.abort();
    let median = |samples: &mut Vec<f64>| quantile(samples, 0.5);
    Ok((median(&mut commits), median(&mut calls), median(&mut replies)))
}

/// Measures claims in turns in an empty file and in one full of ended tasks, and a page of the
/// latter.
async fn measure_claims(empty: &Path, full: &Path) -> BenchResult<(f64, f64, f64)> {
    let (empty_queue, full_queue) = (open_queue(empty), open_queue(full));
    for queue in [&empty_queue, &full_queue] {
        queue.submit(new_task()).await?;
        for claimed in claim_tasks(queue, 1).await? {
            finish_task(queue, claimed).await?;
        }
    }
    let path = full.join("work.db");
    tokio::task::spawn_blocking(move || copy_ended_task(&path).map_err(|error| error.to_string()))
        .await??;
    let (mut of_empty, mut of_full) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for (queue, samples) in [(&empty_queue, &mut of_empty), (&full_queue, &mut of_full)] {
            queue.submit(new_task()).await?;
            let start = Instant::now();
            let claimed = claim_tasks(queue, 1).await?;
            samples.push(to_us(start.elapsed()));
            for claimed in claimed {
                finish_task(queue, claimed).await?;
            }
        }
    }
    let mut pages = Vec::new();
    for _ in 0..ROUNDS / 4 {
        let start = Instant::now();
        let page = full_queue.list(skillhost_tasks::TaskFilter::default()).await?;
        pages.push(to_us(start.elapsed()));
        if page.len() != 100 {
            return Err(format!("a page of {} rows", page.len()).into());
        }
    }
    Ok((quantile(&mut of_empty, 0.5), quantile(&mut of_full, 0.5), quantile(&mut pages, 0.5)))
}

/// Copies the only task, which has ended, until the file is full of such rows.
fn copy_ended_task(path: &Path) -> BenchResult<()> {
    let conn = rusqlite::Connection::open(path)?;
    let mut statement = conn.prepare("SELECT name FROM pragma_table_info('tasks')")?;
    let names = statement.query_map([], |row| row.get::<_, String>(0))?;
    let names = names.collect::<Result<Vec<_>, _>>()?;
    let columns: Vec<_> = names.iter().filter(|name| *name != "number").cloned().collect();
    // Each has its own id, in the order of their numbers; the first ones are the oldest.
    let values = columns.iter().map(|name| match name.as_str() {
        "id" | "root" => "printf('00%024d', rows.value)",
        name => name,
    });
    let values: Vec<_> = values.collect();
    let (columns, values) = (columns.join(", "), values.join(", "));
    conn.execute_batch(&format!(
        "PRAGMA synchronous = OFF;
         BEGIN;
         WITH RECURSIVE rows (value) AS (
             SELECT 1 UNION ALL SELECT value + 1 FROM rows WHERE value < {ENDED_TASKS}
         )
         INSERT INTO tasks ({columns})
             SELECT {values} FROM rows, (SELECT * FROM tasks LIMIT 1);
         INSERT INTO inputs SELECT number, '{{}}' FROM tasks
             WHERE number NOT IN (SELECT number FROM inputs);
         COMMIT;
         PRAGMA wal_checkpoint(TRUNCATE);"
    ))?;
    Ok(())
}

fn to_ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn to_us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
