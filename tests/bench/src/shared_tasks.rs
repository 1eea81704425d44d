//! The task store in PostgreSQL: throughput, in turns with another queue on the same server.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use skillhost_tasks::{PostgresAddress, PostgresQueue, TaskQueue};
use test_support::PostgresServer;

use crate::tasks::{BenchResult, WORKERS, measure_throughput};

/// The runs of each; the first of both has a cold server.
const RUNS: usize = 3;

/// The tasks that the other queue fetches at once in its fastest configuration.
const FETCHED_AT_ONCE: usize = 1_000;

/// The measurements.
#[derive(Debug, Serialize)]
pub(crate) struct SharedFigures {
    own: Vec<OwnRun>,
    /// What the program of the other queue has printed.
    other: Vec<Value>,
    /// The same where it fetches as many tasks at once as the task store holds.
    other_with_few: Vec<Value>,
}

/// A run of the task store, in milliseconds.
#[derive(Debug, Serialize)]
struct OwnRun {
    tasks: usize,
    submit_ms: f64,
    drain_ms: f64,
}

/// Measures the store and a program, which gets the number of tasks, the port of the server and the
/// number of tasks that it fetches at once. Returns `None` without an installed server.
pub(crate) fn measure(tasks: usize, program: &Path) -> BenchResult<Option<SharedFigures>> {
    // With the defaults of the server, so every commit is synchronized with the disk.
    let Some(server) = PostgresServer::start_with(&["listen_addresses=127.0.0.1"], |_| {}) else {
        return Ok(None);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut figures =
        SharedFigures { own: Vec::new(), other: Vec::new(), other_with_few: Vec::new() };
    for run in 0..RUNS {
        let address = format!("host=127.0.0.1 port={} user=operator", server.port());
        let address = format!("{address} dbname=postgres sslmode=disable");
        let address = PostgresAddress::parse(&address, &format!("run_{run}"))?;
        let (submit_ms, drain_ms) = runtime.block_on(async {
            let queue = TaskQueue::new(Arc::new(PostgresQueue::connect(address).await?));
            measure_throughput(&queue, tasks).await
        })?;
        figures.own.push(OwnRun { tasks, submit_ms, drain_ms });
        let run_other = |fetched: usize| -> BenchResult<Value> {
            let arguments = [tasks, server.port().into(), fetched].map(|number| number.to_string());
            let output = Command::new(program).args(arguments).stderr(Stdio::inherit()).output()?;
            if !output.status.success() {
                return Err(format!("{}: {}", program.display(), output.status).into());
            }
            Ok(serde_json::from_slice(&output.stdout)?)
        };
        figures.other.push(run_other(FETCHED_AT_ONCE)?);
        figures.other_with_few.push(run_other(WORKERS)?);
    }
    Ok(Some(figures))
}
