//! Processes that are killed, and disks that are full, at every kind of operation.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, mpsc};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use skillhost_events::Clock;
use skillhost_tasks::{
    NewTask, Operation, OperationOutcome, QueryResult, Queue, QueueErrorKind, TaskAmounts,
    TaskState,
};

use crate::all_rows::{all_outbox, all_tasks, read_all_rows};
use crate::fixture::{START_MS, completed, new_task};
use crate::scenario::{KINDS, create_rows, open_store, operation};

/// The variable with the directory of a child process.
const DIRECTORY: &str = "SKILLHOST_TASKS_DIRECTORY";
/// The variable with the kind of the operation of a child process.
const KIND: &str = "SKILLHOST_TASKS_KIND";
/// The variable that lets a child process end before the commit.
const BEFORE: &str = "SKILLHOST_TASKS_BEFORE";

fn child_command(test: &str, directory: &Path) -> Command {
    let mut command = Command::new("/bin/sh");
    // A write beyond the size limit fails instead of ending the process.
    command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(DIRECTORY, directory);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn child_directory() -> Option<std::path::PathBuf> {
    std::env::var_os(DIRECTORY).map(Into::into)
}

fn child_kind() -> usize {
    std::env::var(KIND).unwrap().parse().unwrap()
}

/// Returns a clock that ends the process at its third use.
fn killing_clock(released: mpsc::Receiver<()>) -> Clock {
    let (uses, released) = (AtomicU32::new(0), Mutex::new(released));
    Clock::new(move || {
        match uses.fetch_add(1, Ordering::SeqCst) {
            // Until the other operations are queued, so that they are one group.
            0 => drop(released.lock().unwrap().recv()),
            1 => {}
            _ => {
                let own = Pid::from_raw(std::process::id().cast_signed()).unwrap();
                kill_process(own, Signal::KILL).unwrap();
            }
        }
        START_MS
    })
}

/// Executes an operation and is killed: in its transaction, or in the one after its commit.
#[tokio::test]
async fn killed_child() {
    let Some(directory) = child_directory() else { return };
    let (release, released) = mpsc::channel();
    let store = open_store(&directory, killing_clock(released));
    let unchanging = || store.execute(Operation::AcknowledgeOutbox { seqs: Vec::new() });
    let first = unchanging();
    if std::env::var_os(BEFORE).is_some() {
        let release = async { release.send(()).unwrap() };
        let _ = tokio::join!(first, store.execute(operation(child_kind())), unchanging(), release);
    } else {
        release.send(()).unwrap();
        let _ = first.await;
        store.execute(operation(child_kind())).await.unwrap();
        let _ = unchanging().await;
    }
    unreachable!("the process was not killed");
}

/// Returns the rows after a child was killed.
async fn rows_after_kill(kind: usize, is_before: bool) -> Vec<QueryResult> {
    let home = tempfile::tempdir().unwrap();
    create_rows(home.path()).await.close().await;
    let mut command = child_command("crashes::killed_child", home.path());
    command.env(KIND, kind.to_string());
    if is_before {
        command.env(BEFORE, "1");
    }
    let ended = command.output().unwrap();
    assert!(!ended.status.success(), "operation {kind}: the child was not killed");
    let output = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!output.contains("panicked"), "operation {kind}: {output}");
    let store = open_store(home.path(), Clock::new(|| START_MS));
    store.check_integrity().await.unwrap();
    read_all_rows(&store).await
}

#[tokio::test]
async fn kill_leaves_state_before_or_after() {
    for kind in 0..KINDS {
        let home = tempfile::tempdir().unwrap();
        let store = create_rows(home.path()).await;
        let before = read_all_rows(&store).await;
        assert_eq!(rows_after_kill(kind, true).await, before, "operation {kind}");
        store.execute(operation(kind)).await.unwrap();
        let after = read_all_rows(&store).await;
        assert_eq!(rows_after_kill(kind, false).await, after, "operation {kind}");
    }
}

/// Executes an operation on a full disk, and again when there is space.
#[tokio::test]
async fn full_disk_child() {
    let Some(directory) = child_directory() else { return };
    let kind = child_kind();
    // The rows are in the log of an open file, which is longer than the limit.
    let store = create_rows(&directory).await;
    let before = read_all_rows(&store).await;
    let unlimited = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: Some(4096), ..unlimited }).unwrap();
    let error = store.execute(operation(kind)).await.unwrap_err();
    let group = tokio::join!(store.execute(operation(kind)), store.execute(operation(kind)));
    let while_full = read_all_rows(&store).await;
    setrlimit(Resource::Fsize, unlimited).unwrap();
    assert_eq!(error.kind(), QueueErrorKind::Io, "{error}");
    assert_eq!((group.0.unwrap_err().kind(), group.1.unwrap_err().kind()), {
        (QueueErrorKind::Io, QueueErrorKind::Io)
    });
    assert_eq!(while_full, before);
    store.execute(operation(kind)).await.unwrap();
    assert_ne!(read_all_rows(&store).await, before);
    store.check_integrity().await.unwrap();
}

#[test]
fn full_disk_changes_nothing() {
    for kind in 0..KINDS {
        let home = tempfile::tempdir().unwrap();
        let mut command = child_command("crashes::full_disk_child", home.path());
        let ended = command.env(KIND, kind.to_string()).output().unwrap();
        let output = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "operation {kind}: {output}");
    }
}

/// Submits, claims and ends tasks until it is killed; writes the numbers of ended ones.
#[tokio::test]
async fn working_child() {
    let Some(directory) = child_directory() else { return };
    let store = open_store(&directory, Clock::new(|| START_MS));
    let run = async |worker: u64| loop {
        let new = NewTask { target: format!("target {worker}"), ..new_task() };
        let id = new.id.clone();
        store.execute(Operation::Submit(Box::new(new))).await.unwrap();
        let filter = skillhost_tasks::ClaimFilter {
            targets: vec![(
                skillhost_tasks::TaskKind::Tool,
                Some(vec![format!("target {worker}")]),
            )],
        };
        let (worker, lease_ms) = (worker.to_string(), 30_000);
        let claim = Operation::Claim { worker, filter, limit: 1, lease_ms };
        let OperationOutcome::Claimed(claimed) = store.execute(claim).await.unwrap() else {
            unreachable!("a claim has this outcome")
        };
        let claim = claimed[0].task.current_claim().unwrap();
        assert_eq!(claim.task, id);
        let spent = TaskAmounts::default();
        let finish = Operation::Finish { claim, outcome: completed(), spent };
        store.execute(finish).await.unwrap();
        writeln!(std::io::stdout(), "ended {id}").unwrap();
    };
    tokio::join!(run(1), run(2), run(3), run(4));
}

fn read_ended(child: &mut Child, count: usize) -> Vec<String> {
    let output = BufReader::new(child.stdout.take().unwrap());
    let lines = output.lines().map_while(Result::ok);
    let mut ids = lines.filter_map(|line| line.strip_prefix("ended ").map(str::to_owned));
    let mut found: Vec<_> = ids.by_ref().take(count).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    // Those that were written before the kill.
    found.extend(ids);
    found
}

#[tokio::test]
async fn kill_loses_no_acknowledged_end() {
    let home = tempfile::tempdir().unwrap();
    let mut ended = Vec::new();
    for round in 0..20 {
        let mut child = child_command("crashes::working_child", home.path()).spawn().unwrap();
        ended.extend(read_ended(&mut child, 3 + round * 2));
        let store = open_store(home.path(), Clock::new(|| START_MS));
        store.check_integrity().await.unwrap();
        let tasks = all_tasks(&store).await;
        let stored: Vec<_> = tasks
            .iter()
            .filter(|task| task.state == TaskState::Completed)
            .map(|task| task.id.to_string())
            .collect();
        let lost: Vec<_> = ended.iter().filter(|id| !stored.contains(id)).collect();
        assert!(lost.is_empty(), "round {round}: {lost:?}");
        let outbox = all_outbox(&store).await;
        let mut notices: Vec<_> =
            outbox.iter().filter(|row| row.topic == "task.ended").map(|row| &*row.key).collect();
        let all_ended = tasks.iter().filter(|task| task.state.is_terminal());
        let mut expected: Vec<_> = all_ended.map(|task| task.id.as_str()).collect();
        notices.sort();
        expected.sort();
        assert_eq!(notices, expected, "round {round}");
        // What a killed worker has left is claimed again, or it stays in the way of the next one.
        for task in tasks.into_iter().filter(|task| !task.state.is_terminal()) {
            let by = "test".to_owned();
            store.execute(Operation::Cancel { task: task.id, by }).await.unwrap();
        }
        store.close().await;
    }
}
