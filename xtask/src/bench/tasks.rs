//! The task store, against apalis-sqlite on the same disk and graphile_worker on the same server, with
//! the same durability.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::table::{BenchRow, median, row};
use crate::install::BuildProfile;
use crate::process::{cargo_command, run_command};
use crate::workspace::{Result, root, target};

/// The tasks of a run.
const TASKS: usize = 20_000;
/// The tasks of a run of apalis, which needs minutes for as many as the task store.
const APALIS_TASKS: usize = 2_000;
/// The runs of each; they are made in turns.
const RUNS: usize = 3;
/// The sizes of the batches that apalis fetches; the fastest counts.
const APALIS_BATCHES: [usize; 3] = [32, 256, 1_024];

/// A measured run: milliseconds of the submission and of the execution.
struct QueueTimes {
    tasks: f64,
    submit_ms: f64,
    drain_ms: f64,
}

impl QueueTimes {
    fn new(figures: &Value) -> Self {
        let get = |key: &str| figures[key].as_f64().unwrap_or(f64::NAN);
        Self { tasks: get("tasks"), submit_ms: get("submit_ms"), drain_ms: get("drain_ms") }
    }

    /// Returns the tasks per second, from the submission to the stored end.
    fn tasks_per_second(&self) -> f64 {
        self.tasks / (self.submit_ms + self.drain_ms) * 1e3
    }

    /// Returns the tasks per second, from the claim to the stored end.
    fn ended_per_second(&self) -> f64 {
        self.tasks / self.drain_ms * 1e3
    }
}

/// Adds the measurements of the task store.
pub(super) fn measure_tasks(rows: &mut Vec<BenchRow>) -> Result<()> {
    let ours = BuildProfile::Dist.directory().join("bench");
    let theirs = build_peer("apalis");
    let (mut own_runs, mut apalis_runs) = (Vec::new(), Vec::new());
    let mut figures = Value::Null;
    for _ in 0..RUNS {
        figures = run_json(Command::new(&ours).args(["--tasks", &TASKS.to_string()]))?;
        own_runs.push(QueueTimes::new(&figures));
        if let Ok(program) = &theirs {
            apalis_runs.push(run_apalis(program)?);
        }
    }
    let what = "tasks that do nothing, per second, ours : apalis-sqlite";
    let medians = |per_second: fn(&QueueTimes) -> f64| {
        let ours = median(own_runs.iter().map(per_second));
        let theirs = median(apalis_runs.iter().map(per_second));
        (ours / theirs, format!("{:.2} × ({ours:.0} : {theirs:.0})", ours / theirs))
    };
    match &theirs {
        Ok(_) => {
            let (ratio, value) = medians(QueueTimes::tasks_per_second);
            rows.push(row(what, value, "≥ 2 ×", ratio >= 2.0));
            let (_, value) = medians(QueueTimes::ended_per_second);
            rows.push(BenchRow { what: "  without their submission".into(), value, goal: None });
        }
        Err(reason) => {
            let value = format!("SKIPPED: {reason}");
            rows.push(BenchRow { what: what.into(), value, goal: None });
        }
    }
    add_delays(&figures, rows);
    measure_shared(&ours, rows)
}

/// Adds the measurement of the store in PostgreSQL.
fn measure_shared(ours: &Path, rows: &mut Vec<BenchRow>) -> Result<()> {
    let what = "the same in PostgreSQL, ours : graphile_worker";
    let skipped = |reason: String| {
        let value = format!("SKIPPED: {reason}");
        BenchRow { what: what.into(), value, goal: None }
    };
    let program = match build_peer("graphile") {
        Ok(program) => program,
        Err(reason) => {
            rows.push(skipped(reason.to_string()));
            return Ok(());
        }
    };
    let mut command = Command::new(ours);
    command.args(["--shared-tasks", &TASKS.to_string()]).arg(program);
    let figures = run_json(&mut command)?;
    if figures.is_null() {
        rows.push(skipped("PostgreSQL is not installed".into()));
        return Ok(());
    }
    let runs = |of: &str| -> Vec<QueueTimes> {
        figures[of].as_array().into_iter().flatten().map(QueueTimes::new).collect()
    };
    let own = runs("own");
    let compare = |other: &[QueueTimes], per_second: fn(&QueueTimes) -> f64| {
        let (own, other) =
            (median(own.iter().map(per_second)), median(other.iter().map(per_second)));
        (own / other, format!("{:.2} × ({own:.0} : {other:.0})", own / other))
    };
    let other = runs("other");
    let (ratio, value) = compare(&other, QueueTimes::tasks_per_second);
    rows.push(row(what, value, "≥ 0.5 ×", ratio >= 0.5));
    let (_, value) = compare(&other, QueueTimes::ended_per_second);
    rows.push(BenchRow { what: "  without their submission".into(), value, goal: None });
    // The tasks that it holds wait for a timeout of hours after a kill.
    let few = runs("other_with_few");
    let (_, value) = compare(&few, QueueTimes::tasks_per_second);
    rows.push(BenchRow { what: "  where both hold at most 512 tasks".into(), value, goal: None });
    Ok(())
}

fn add_delays(figures: &Value, rows: &mut Vec<BenchRow>) {
    let get = |key: &str| figures[key].as_f64().unwrap_or(f64::NAN);
    let (commit, start) = (get("commit_us"), get("reply_to_start_us"));
    let value = format!(
        "{start:.0} µs (a commit {commit:.0} µs; with the submission {:.0} µs)",
        get("submit_to_start_us")
    );
    let is_soon = start <= commit + 1_000.0;
    rows.push(row("submitted task → its start, p50", value, "≤ a commit + 1 ms", is_soon));
    let ratio = get("claim_full_us") / get("claim_empty_us");
    let value =
        format!("{ratio:.2} × ({:.0} µs : {:.0} µs)", get("claim_full_us"), get("claim_empty_us"));
    let what = format!("claim with {} ended tasks : without", figures["ended_tasks"]);
    rows.push(row(&what, value, "≤ 1.2 ×", ratio <= 1.2));
    let page = get("page_of_100_us") / 1e3;
    rows.push(row("  a page of 100 of them", format!("{page:.2} ms"), "≤ 10 ms", page <= 10.0));
}

/// Builds the program that measures another queue, a workspace of its own.
fn build_peer(name: &str) -> Result<PathBuf> {
    let directory = target().join(format!("peers-{name}"));
    let mut build = cargo_command(["build", "--release", "--locked", "--quiet", "--manifest-path"]);
    build.arg(root().join(format!("tools/{name}/Cargo.toml"))).arg("--target-dir").arg(&directory);
    // The flags of the product's SQLite leave out what `sqlx` links.
    run_command(build.env("LIBSQLITE3_FLAGS", "-DSQLITE_ENABLE_COLUMN_METADATA"))?;
    Ok(directory.join(format!("release/skillhost-{name}")))
}

/// Returns the times of the fastest size of batches.
fn run_apalis(program: &Path) -> Result<QueueTimes> {
    let mut best: Option<QueueTimes> = None;
    for batch in APALIS_BATCHES {
        let arguments = [APALIS_TASKS.to_string(), batch.to_string()];
        let times = QueueTimes::new(&run_json(Command::new(program).args(arguments))?);
        if best.as_ref().is_none_or(|best| times.tasks_per_second() > best.tasks_per_second()) {
            best = Some(times);
        }
    }
    best.ok_or_else(|| "no size of batches was measured".into())
}

fn run_json(command: &mut Command) -> Result<Value> {
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{}: {}", command.get_program().display(), output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
