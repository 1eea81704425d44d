//! Tests of several homes whose kernels share one queue in a PostgreSQL database.

use mock_model::{MockModel, Step, Wire};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use test_support::{Background, PostgresServer, TestHome, poll_until};

use crate::fixtures::{agent_manifest, shipped_manifest, start_kernel};

/// The shortest lease.
pub(crate) const LEASE_MS: u64 = 1_000;

/// Creates a home on the queue of a server, with one agent.
pub(crate) fn machine(server: &PostgresServer, mock: &MockModel, agent: &str) -> TestHome {
    let tasks = format!(
        "tasks: {{store: postgres, url_secret: WORK_DATABASE, lease_ms: {LEASE_MS}, workers: 1}}\n"
    );
    TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .manifest(agent, &agent_manifest(agent, "  instructions: Work.\n  uses_tools: [tasks]\n"))
        .settings(&format!("{}{tasks}", mock.settings(Wire::Openai)))
        .file(".env", format!("WORK_DATABASE='{}'\n", server.url()))
        .trusted()
}

pub(crate) fn submit(home: &TestHome, agent: &str, text: &str) -> String {
    let submitted = home.skillhost(["task", "submit", "--json", agent, text]).success().json();
    submitted["task"]["id"].as_str().unwrap().to_owned()
}

fn find(home: &TestHome, task: &str) -> Value {
    home.skillhost(["task", "show", "--json", task]).success().json()["task"].clone()
}

fn wait_for_end(home: &TestHome, task: &str) -> Value {
    poll_until("the end of a task", || {
        let found = find(home, task);
        if found["outcome"].is_null() { Err(found) } else { Ok(found) }
    })
}

pub(crate) fn signal(kernel: &Background, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(kernel.id()).unwrap()).unwrap(), signal).unwrap();
}

/// Returns the number of events about the end of a task in the journal of a home.
fn count_ends(home: &TestHome, task: &str) -> usize {
    let events = home.skillhost(["event", "tail", "--topic", "task.ended", "--json"]).success();
    events.stdout.lines().filter(|line| line.contains(task)).count()
}

#[test]
fn task_runs_where_its_agent_is() {
    let Some(server) = PostgresServer::start() else { return };
    let mock = MockModel::with([Step::text("Done by two.")]);
    let (one, two) = (machine(&server, &mock, "first_agent"), machine(&server, &mock, "other"));
    let first = start_kernel(&one);
    let second = start_kernel(&two);
    let task = submit(&one, "other", "Do it");
    first.line_with("kernel task.ended");
    let ended = wait_for_end(&two, &task);
    assert_eq!(ended["outcome"]["text"], "Done by two.", "{ended:#}");
    assert!(!one.path("sandbox/data/kernel/work.db").exists());
    first.interrupt().success();
    second.interrupt().success();
    assert_eq!((count_ends(&one, &task), count_ends(&two, &task)), (1, 0));
}

#[test]
fn killed_machine_loses_its_task() {
    let Some(server) = PostgresServer::start() else { return };
    let mock = MockModel::with([Step::text("Never.").held(), Step::text("Done.")]);
    let (one, two) = (machine(&server, &mock, "worker"), machine(&server, &mock, "worker"));
    let first = start_kernel(&one);
    let task = submit(&one, "worker", "Do it");
    let _ = mock.wait_for(1);
    signal(&first, Signal::KILL);
    let _ = first.finish();
    let second = start_kernel(&two);
    let ended = wait_for_end(&two, &task);
    assert_eq!((&ended["outcome"]["text"], &ended["attempt"]), (&"Done.".into(), &2.into()));
    second.interrupt().success();
    // The home of the submitter announces it, as soon as its kernel runs again.
    assert_eq!((count_ends(&one, &task), count_ends(&two, &task)), (0, 0));
    let first = start_kernel(&one);
    first.line_with("kernel task.ended");
    first.interrupt().success();
    assert_eq!((count_ends(&one, &task), count_ends(&two, &task)), (1, 0));
    mock.release();
}

#[test]
fn frozen_machine_writes_nothing_stale() {
    let Some(server) = PostgresServer::start() else { return };
    let mock = MockModel::with([Step::text("Stale.").held(), Step::text("Done.")]);
    let (one, two) = (machine(&server, &mock, "worker"), machine(&server, &mock, "worker"));
    let first = start_kernel(&one);
    let task = submit(&one, "worker", "Do it");
    let _ = mock.wait_for(1);
    signal(&first, Signal::STOP);
    let second = start_kernel(&two);
    let ended = wait_for_end(&two, &task);
    assert_eq!(ended["outcome"]["text"], "Done.", "{ended:#}");
    let lines = "SELECT count(*) FROM skillhost.lines";
    let before = server.query(lines);
    // The reply to the frozen run arrives, and the run continues with it.
    mock.release();
    signal(&first, Signal::CONT);
    first.line_with("kernel task.ended");
    first.interrupt().success();
    second.interrupt().success();
    assert_eq!(find(&two, &task), ended);
    assert_eq!(server.query(lines), before);
    assert_eq!((count_ends(&one, &task), count_ends(&two, &task)), (1, 0));
}

#[test]
fn unreachable_database_is_never_replaced() {
    let Some(mut server) = PostgresServer::start() else { return };
    let mock = MockModel::with([Step::text("Done.")]);
    let home = machine(&server, &mock, "worker");
    server.stop();
    let kernel = start_kernel(&home);
    let refused = home.skillhost(["task", "submit", "worker", "Do it"]).exits(5);
    assert!(refused.stderr.contains("PostgreSQL"), "{refused}");
    let doctor = home.skillhost(["extension", "doctor"]).exits(1);
    assert!(doctor.stdout.contains("PostgreSQL"), "{doctor}");
    assert!(!home.path("sandbox/data/kernel/work.db").exists());
    // The kernel connects by itself.
    server.start_again();
    let task = submit(&home, "worker", "Do it");
    assert_eq!(wait_for_end(&home, &task)["outcome"]["text"], "Done.");
    kernel.interrupt().success();
    assert!(!home.path("sandbox/data/kernel/work.db").exists());
}
