//! Several worker processes on one server, frozen beyond their leases, while the server restarts.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use skillhost_tasks::{
    ClaimFilter, LostWorkers, NewTask, PostgresAddress, PostgresQueue, QueueErrorKind, TaskAmounts,
    TaskKind, TaskOutcome, TaskQueue, TaskState,
};

use super::server::PrivateServer;

/// The number of tasks; every third is in one of seven lanes.
const TASKS: usize = 300;
/// The length of a lease.
const LEASE: Duration = Duration::from_millis(600);
/// The limit of the test.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Writes down every accepted line with the state and epoch that its task has then, and every state
/// of a task in a lane. Rows of a transaction that is rolled back disappear.
const AUDIT: &str = "
    CREATE TABLE audit_lines (seq bigserial, task text, epoch bigint, current bigint, state text);
    CREATE FUNCTION audit_line() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO audit_lines (task, epoch, current, state)
        SELECT NEW.task, NEW.epoch, (doc::json->>'epoch')::bigint, state FROM tasks
        WHERE id = NEW.task;
        RETURN NULL; END $$;
    CREATE TRIGGER audit AFTER INSERT ON lines FOR EACH ROW EXECUTE FUNCTION audit_line();
    CREATE TABLE audit_states (seq bigserial, lane text, task text, state text);
    CREATE FUNCTION audit_state() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO audit_states (lane, task, state) VALUES (NEW.lane, NEW.id, NEW.state);
        RETURN NULL; END $$;
    CREATE TRIGGER audit AFTER UPDATE ON tasks FOR EACH ROW WHEN (NEW.lane IS NOT NULL)
        EXECUTE FUNCTION audit_state();";

/// Claims and finishes tasks until none is left; started by the test below.
#[tokio::test]
#[ignore = "a process of the other test"]
async fn worker_process() {
    let Ok(url) = std::env::var("WORKER_URL") else { return };
    let address = PostgresAddress::parse(&url, "work").unwrap();
    // A worker that is stopped at its start may connect while the server restarts.
    let store = loop {
        if let Ok(store) = PostgresQueue::connect(address.clone()).await {
            break store;
        }
    };
    let queue = TaskQueue::new(Arc::new(store));
    let worker = std::process::id().to_string();
    let mut stale = 0;
    loop {
        // Every call may fail while the server restarts; the worker then goes on.
        let _ = queue.sweep(LostWorkers::Expired).await;
        let Ok(claimed) = queue.claim(&worker, ClaimFilter::default(), 4, LEASE).await else {
            continue;
        };
        for claimed in &claimed {
            let claim = claimed.task.current_claim().unwrap();
            let line = vec![format!("{worker} works")];
            // The work: the process may be stopped within it.
            tokio::time::sleep(Duration::from_millis(25)).await;
            let spent = TaskAmounts::default();
            let stored = queue.record(claim.clone(), line, spent, None).await;
            let done =
                TaskOutcome::Completed { text: worker.clone(), structured: None, is_error: false };
            let finished = queue.finish(claim, done, spent).await;
            let refused = [stored.err(), finished.err()];
            let refused = refused.iter().flatten();
            stale += refused.filter(|error| error.kind() == QueueErrorKind::Stale).count();
        }
        let Ok(counts) = queue.counts().await else { continue };
        if counts.iter().all(|(state, _)| state.is_terminal()) {
            break;
        }
        if claimed.is_empty() {
            let store = queue.store();
            store.wait_for_change(Duration::from_millis(200)).await;
        }
    }
    std::fs::write(std::env::var("WORKER_REPORT").unwrap(), stale.to_string()).unwrap();
}

fn spawn_worker(url: &str, report: &std::path::Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "fleet::worker_process", "--ignored"])
        .env("WORKER_URL", url)
        .env("WORKER_REPORT", report)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn frozen_workers_write_nothing_stale() {
    let Some(mut server) = PrivateServer::start().await else { return };
    let store = PostgresQueue::connect(server.address("work")).await.unwrap();
    let queue = TaskQueue::new(Arc::new(store));
    server.admin().await.batch_execute(&format!("SET search_path = work; {AUDIT}")).await.unwrap();
    for number in 0..TASKS {
        let mut new = NewTask::new(TaskKind::Tool, "echo", "{}");
        new.lane = (number % 3 == 0).then(|| format!("lane {}", number % 7));
        queue.submit(new).await.unwrap();
    }
    let reports = tempfile::tempdir().unwrap();
    let url = server.url();
    let mut workers: Vec<Child> =
        (0..4).map(|number| spawn_worker(&url, &reports.path().join(number.to_string()))).collect();
    let (start, mut stops, mut restarts) = (Instant::now(), 0, 0);
    loop {
        assert!(start.elapsed() < TIMEOUT, "{:?}", queue.counts().await);
        let Ok(counts) = queue.counts().await else { continue };
        let ended: u64 =
            counts.iter().filter(|(state, _)| state.is_terminal()).map(|(_, count)| count).sum();
        if ended == TASKS as u64 {
            break;
        }
        // Two are stopped for more than a lease; the others take their tasks.
        let stopped: Vec<Pid> =
            [stops % 4, (stops + 1) % 4].map(|at| Pid::from_child(&workers[at])).into();
        for worker in &stopped {
            let _ = kill_process(*worker, Signal::STOP);
        }
        tokio::time::sleep(LEASE * 2).await;
        if restarts == 0 && ended > TASKS as u64 / 4 {
            server.restart().await;
            restarts += 1;
        }
        for worker in &stopped {
            let _ = kill_process(*worker, Signal::CONT);
        }
        tokio::time::sleep(LEASE / 2).await;
        stops += 1;
    }
    for worker in &mut workers {
        assert!(worker.wait().unwrap().success());
    }
    let stale: usize = (0..4)
        .map(|number| std::fs::read_to_string(reports.path().join(number.to_string())).unwrap())
        .map(|text| text.parse::<usize>().unwrap())
        .sum();
    let admin = server.admin().await;
    let one =
        async |statement: &str| -> i64 { admin.query_one(statement, &[]).await.unwrap().get(0) };
    let accepted = one("SELECT count(*) FROM work.audit_lines").await;
    let wrong =
        "SELECT count(*) FROM work.audit_lines WHERE epoch <> current OR state <> 'running'";
    assert_eq!(one(wrong).await, 0, "stale lines were accepted");
    let ends = "SELECT count(DISTINCT key) FROM work.outbox WHERE topic = 'task.ended'";
    assert_eq!(one(ends).await, i64::try_from(TASKS).unwrap());
    // In the order of their commits, at most one task of a lane runs.
    let states = "SELECT lane, task, state FROM work.audit_states ORDER BY seq";
    let mut running: BTreeMap<String, String> = BTreeMap::new();
    for row in admin.query(states, &[]).await.unwrap() {
        let (lane, task, state): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        if state == TaskState::Running.as_str() {
            let before = running.insert(lane.clone(), task.clone());
            assert!(before.is_none_or(|other| other == task), "two tasks of `{lane}` run");
        } else if running.get(&lane) == Some(&task) {
            running.remove(&lane);
        }
    }
    assert!(stale > 0 && restarts == 1, "{stale} stale writes, {restarts} restarts");
    println!(
        "{TASKS} tasks, {} stops, {restarts} restart, {accepted} writes accepted, \
         {stale} stale ones refused",
        2 * stops
    );
}
