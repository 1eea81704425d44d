//! The task store in PostgreSQL: throughput, in turns with another queue on the same server.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use skillhost_tasks::{PostgresAddress, PostgresQueue, TaskQueue};
use test_support::PostgresServer;

use crate::tasks::{BenchResult, measure_throughput};

/// The runs of each; the first of both has a cold server.
const RUNS: usize = 3;

/// The measurements.
#[derive(Debug, Serialize)]
pub(crate) struct SharedFigures {
    own: Vec<OwnRun>,
    /// What the program of the other queue has printed.
    other: Vec<Value>,
}

/// A run of the task store, in milliseconds.
#[derive(Debug, Serialize)]
struct OwnRun {
    submit_ms: f64,
    drain_ms: f64,
}

/// Measures the store and a program, which gets the number of tasks and the port of the server. Returns
/// `None` without an installed server.
pub(crate) fn measure(tasks: usize, program: &Path) -> BenchResult<Option<SharedFigures>> {
    // With the defaults of the server, so every commit is synchronized with the disk.
    let Some(server) = PostgresServer::start_with(&["listen_addresses=127.0.0.1"], |_| {}) else {
        return Ok(None);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut figures = SharedFigures { own: Vec::new(), other: Vec::new() };
    for run in 0..RUNS {
        let address = format!("host=127.0.0.1 port={} user=operator", server.port());
        let address = format!("{address} dbname=postgres sslmode=disable");
        let address = PostgresAddress::parse(&address, &format!("run_{run}"))?;
        let (submit_ms, drain_ms) = runtime.block_on(async {
            let queue = TaskQueue::new(Arc::new(PostgresQueue::connect(address).await?));
            measure_throughput(&queue, tasks).await
        })?;
        figures.own.push(OwnRun { submit_ms, drain_ms });
        let arguments = [tasks.to_string(), server.port().to_string()];
        let output = Command::new(program).args(arguments).stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("{}: {}", program.display(), output.status).into());
        }
        figures.other.push(serde_json::from_slice(&output.stdout)?);
    }
    Ok(Some(figures))
}
