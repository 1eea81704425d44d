//! The costs of tasks that do not run: an idle kernel writes nothing, and parked tasks hold no worker
//! and little memory.

use std::fs;
use std::time::{Duration, Instant, SystemTime};

use mock_model::{MockModel, Step, Wire};
use skillhost_tasks::{
    ClaimFilter, NewQuestion, NewTask, NewWait, QuestionKind, Task, TaskId, TaskKind, TaskState,
};
use test_support::{Background, STUCK_AFTER, TestHome};

use crate::fixtures::{agent_manifest, shipped_manifest, start_kernel};
use crate::home_queue::HomeQueue;

/// Longer than two intervals of the engine's sweeps and one of its heartbeats.
const IDLE: Duration = Duration::from_secs(11);
/// The tasks that are parked in one transaction.
const AT_ONCE: usize = 1_000;
/// The memory that 10,000 parked tasks may take in the kernel.
const MAX_KIB: u64 = 64 * 1024;

/// Creates a home whose kernel works on one task at a time, with a model that always replies.
fn idle_home(mock: &MockModel) -> TestHome {
    mock.answer_with(|_| Some(Step::text("Done.")));
    let settings = format!("{}tasks: {{workers: 1}}\n", mock.settings(Wire::Openai));
    TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .manifest("worker", &agent_manifest("worker", "  instructions: You work.\n"))
        .settings(&settings)
        .trusted()
}

fn agent_task(text: &str) -> NewTask {
    NewTask::new(TaskKind::Agent, "worker", text)
}

fn wait_for_end(queue: &HomeQueue, task: &Task) -> Task {
    let start = Instant::now();
    loop {
        let found = queue.runtime.block_on(queue.queue.find(&task.id)).unwrap().unwrap();
        let outbox = queue.runtime.block_on(queue.queue.outbox(1)).unwrap();
        if found.state.is_terminal() && outbox.is_empty() {
            return found;
        }
        assert!(start.elapsed() < STUCK_AFTER, "{found:#?}");
        let store = queue.queue.store();
        queue.runtime.block_on(store.wait_for_change(Duration::from_millis(200)));
    }
}

/// Waits until no process has changed the file for a time.
fn wait_without_changes(queue: &HomeQueue, time: Duration) {
    let start = Instant::now();
    loop {
        let quiet = Instant::now();
        queue.runtime.block_on(queue.queue.store().wait_for_change(time));
        if quiet.elapsed() >= time {
            return;
        }
        assert!(start.elapsed() < STUCK_AFTER, "the kernel does not become idle");
    }
}

/// Returns sizes and times of the file and its log.
fn file_states(home: &TestHome) -> Vec<(u64, SystemTime)> {
    let files = ["work.db", "work.db-wal", "events.db", "events.db-wal"];
    let state = |name: &&str| {
        let found = fs::metadata(home.path(format!("sandbox/data/kernel/{name}"))).ok()?;
        Some((found.len(), found.modified().unwrap()))
    };
    files.iter().filter_map(state).collect()
}

/// Returns the resident memory of a process, in KiB.
fn resident_kib(kernel: &Background) -> u64 {
    proc_number(&format!("/proc/{}/status", kernel.id()), "VmRSS:")
}

/// Returns the bytes that a process has caused to be written to a disk.
fn written_bytes(kernel: &Background) -> u64 {
    proc_number(&format!("/proc/{}/io", kernel.id()), "write_bytes:")
}

fn proc_number(path: &str, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn idle_kernel_writes_nothing() {
    let mock = MockModel::new();
    let home = idle_home(&mock);
    let queue = HomeQueue::open(&home);
    let task = queue.submit(agent_task("One"));
    let kernel = start_kernel(&home);
    assert_eq!(wait_for_end(&queue, &task).state, TaskState::Completed);
    wait_without_changes(&queue, Duration::from_secs(2));
    let before = (file_states(&home), written_bytes(&kernel));
    wait_without_changes(&queue, IDLE);
    assert_eq!((file_states(&home), written_bytes(&kernel)), before);
    // It still works afterwards.
    let task = queue.submit(agent_task("Two"));
    assert_eq!(wait_for_end(&queue, &task).state, TaskState::Completed);
    assert_ne!(file_states(&home), before.0);
    kernel.interrupt().success();
}

/// Parks tasks, each with a question.
async fn park_tasks(queue: &skillhost_tasks::TaskQueue, count: usize) {
    for _ in 0..count / AT_ONCE {
        let submissions = (0..AT_ONCE).map(|number| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.submit(agent_task(&number.to_string())).await })
        });
        for submitted in submissions.collect::<Vec<_>>() {
            submitted.await.unwrap().unwrap();
        }
        let lease = Duration::from_secs(600);
        let claimed = queue.claim("test", ClaimFilter::default(), AT_ONCE, lease).await.unwrap();
        assert_eq!(claimed.len(), AT_ONCE);
        let parkings = claimed.into_iter().map(|claimed| {
            let (queue, claim) = (queue.clone(), claimed.task.current_claim().unwrap());
            tokio::spawn(async move { queue.wait(claim, new_wait()).await })
        });
        for parked in parkings.collect::<Vec<_>>() {
            parked.await.unwrap().unwrap();
        }
    }
}

fn new_wait() -> NewWait {
    let question = NewQuestion {
        id: TaskId::generate().to_string(),
        thread: None,
        kind: QuestionKind::Consent,
        asker: "worker".into(),
        call: "consent:1".into(),
        title: "write_file of core_tools".into(),
        subject: "x".repeat(1_000),
        options: vec!["approve".into(), "refuse".into()],
    };
    NewWait { questions: vec![question], ..NewWait::default() }
}

#[cfg(target_os = "linux")]
#[test]
fn parked_tasks_hold_no_worker() {
    check_parked(1_000);
}

/// The complete measurement; `SKILLHOST_FIGURES` names a file for the figures.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "takes a minute"]
fn ten_thousand_parked_tasks_are_small() {
    check_parked(10_000);
}

fn check_parked(count: usize) {
    let mock = MockModel::new();
    let home = idle_home(&mock);
    let queue = HomeQueue::open(&home);
    // The same work first without them.
    let measure = || {
        let kernel = start_kernel(&home);
        let task = queue.submit(agent_task("Another"));
        assert_eq!(wait_for_end(&queue, &task).state, TaskState::Completed);
        // A sweep is over.
        wait_without_changes(&queue, Duration::from_secs(6));
        let resident = resident_kib(&kernel);
        kernel.interrupt().success();
        resident
    };
    let without = measure();
    queue.runtime.block_on(park_tasks(&queue.queue, count));
    let with = measure();
    let counts = queue.runtime.block_on(queue.queue.counts()).unwrap();
    assert_eq!(counts, [(TaskState::Waiting, count as u64), (TaskState::Completed, 2)]);
    assert!(with <= without + MAX_KIB, "{with} KiB with parked tasks, {without} KiB without");
    if let Some(path) = std::env::var_os("SKILLHOST_FIGURES") {
        let figures = serde_json::json!({"parked": count, "kib_without": without, "kib": with});
        fs::write(path, format!("{figures}\n")).unwrap();
    }
}
