//! Tests of tasks whose surroundings change: agents that disappear, tasks that end in between, other
//! kernels, a full disk.

use std::path::Path;

use mock_model::{MockModel, MockRequest, Step, Wire};
use rusqlite::Connection;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::json;
use skillhost_tasks::{FailureReason, NewTask, Task, TaskKind, TaskOutcome, TaskState};
use test_support::{STUCK_AFTER, TestHome, binary, poll_until, wait_until};

use crate::agents_scene::{ask_agent, last_thread};
use crate::fixtures::{agent_manifest, shipped_manifest, start_kernel};
use crate::home_queue::{HomeQueue, failure_of, result_of};

const WORKER: &str = "  instructions: You work.\n  uses_tools: [core_tools, echo, tasks, kernel]\n";

/// Creates a home with the agents `worker` and `helper`.
fn workers_home(mock: &MockModel) -> TestHome {
    TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .manifest("core_tools", &shipped_manifest("core_tools"))
        .manifest("echo", &shipped_manifest("echo"))
        .manifest("worker", &agent_manifest("worker", WORKER))
        .manifest("helper", &agent_manifest("helper", WORKER))
        .settings(&mock.settings(Wire::Openai))
        .trusted()
}

fn task_of(agent: &str, text: &str) -> NewTask {
    NewTask::new(TaskKind::Agent, agent, text)
}

/// Returns whether a request has a message that contains a text.
fn mentions(request: &MockRequest, text: &str) -> bool {
    request.messages().iter().any(|message| message.text.contains(text))
}

fn count_results(request: &MockRequest) -> usize {
    request.messages().iter().filter(|message| message.role == "tool").count()
}

#[test]
fn removed_agent_fails_waiting_task() {
    let write = r#"{"path": "note.txt", "content": "0"}"#;
    let mock = MockModel::with([Step::calls("write_file", write), Step::text("Written.")]);
    let home = workers_home(&mock);
    let queue = HomeQueue::open(&home);
    let task = queue.submit(task_of("helper", "Write."));
    let kernel = start_kernel(&home);
    queue.wait_for(&task.id, |task| task.state == TaskState::Waiting);
    let manifest = home.path("manifests/helper");
    std::fs::rename(&manifest, home.path("helper")).unwrap();
    kernel.line_with("agent `helper` was removed");
    let question = queue.only_question();
    queue.decide(&question, "approve");
    let ended = queue.wait_for_end(&task.id);
    assert_eq!(failure_of(&ended), FailureReason::Target);
    let Some(TaskOutcome::Failed { message, hint, .. }) = &ended.outcome else { unreachable!() };
    assert!(message.contains("agent `helper` not found"), "{message}");
    let retry = format!("skillhost task retry {}", task.id);
    assert!(hint.ends_with(&format!("then run: {retry}")), "{hint}");
    assert!(!home.path("sandbox/note.txt").exists());

    // With the agent, the retry continues: its approval is asked for again, its request is not.
    std::fs::rename(home.path("helper"), &manifest).unwrap();
    home.skillhost(["ext", "reload", "helper"]).success();
    home.skillhost(["task", "retry", task.id.as_str()]).success();
    let is_retry = |other: &Task| other.retry_of.as_ref() == Some(&task.id);
    let retried = queue.list().into_iter().find(is_retry).unwrap();
    queue.wait_for(&retried.id, |task| task.state == TaskState::Waiting);
    queue.decide(&queue.only_question(), "approve");
    assert_eq!(result_of(&queue.wait_for_end(&retried.id)), "Written.");
    assert!(home.path("sandbox/note.txt").exists());
    kernel.interrupt().success();
}

#[test]
fn task_starts_after_completed_one() {
    let mock = MockModel::with([Step::text("First.").held(), Step::text("Second.")]);
    let home = workers_home(&mock);
    let queue = HomeQueue::open(&home);
    let first = queue.submit(task_of("worker", "One"));
    let after = vec![first.id.clone()];
    let second = queue.submit(NewTask { after: after.clone(), ..task_of("worker", "Two") });
    assert_eq!((second.state, second.waits.after), (TaskState::Waiting, after.clone()));
    let kernel = start_kernel(&home);
    let _ = mock.wait_for(1);
    assert_eq!(queue.find(&second.id).state, TaskState::Waiting);
    mock.release();
    let (first, second) = (queue.wait_for_end(&first.id), queue.wait_for_end(&second.id));
    assert_eq!((result_of(&first), result_of(&second)), ("First.", "Second."));
    assert!(second.started_ms >= first.ended_ms);
    // After one that has completed already, nothing is waited for.
    mock.push(Step::text("Third."));
    let third = queue.submit(NewTask { after, ..task_of("worker", "Three") });
    assert_eq!(result_of(&queue.wait_for_end(&third.id)), "Third.");
    kernel.interrupt().success();
}

/// Answers an agent that submits a task with a turn at its end, and the task by `help`.
fn answer_woken_agent(mock: &MockModel, help: impl Fn() -> Step + Send + Sync + 'static) {
    let submit = r#"{"agent":"helper","task":"Help out","key":"k","on_end":"wake"}"#;
    mock.answer_with(move |request| {
        let has_woken = request.last_text().contains("has completed");
        Some(match (has_woken, mentions(request, "Get help"), count_results(request)) {
            (true, ..) => Step::text("Thanks for the help."),
            (false, true, 0) => Step::calls("submit_task", submit),
            (false, true, _) => Step::text("Submitted."),
            (false, false, _) => help(),
        })
    });
}

#[test]
fn ended_task_wakes_its_agent() {
    let mock = MockModel::new();
    answer_woken_agent(&mock, || Step::text("I have helped."));
    let home = workers_home(&mock);
    let kernel = start_kernel(&home);
    let output = ask_agent(&home, "worker", "Get help").success();
    assert!(output.stdout.contains("Submitted."), "{output}");
    let thread = last_thread(&home);
    kernel.line_with("kernel agent.replied");
    kernel.line_with("kernel agent.replied");
    let path = home.path(format!("sandbox/data/kernel/threads/{thread}.jsonl"));
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(text.matches("Thanks for the help.").count(), 1, "{text}");
    let woken = mock.requests().into_iter().find(|it| it.last_text().contains("has completed"));
    let woken = woken.unwrap();
    // The turn has the thread, and the result of the task.
    assert!(mentions(&woken, "Get help") && woken.last_text().contains("I have helped."));
    kernel.interrupt().success();
    start_kernel(&home).interrupt().success();
    let turns =
        mock.requests().iter().filter(|it| it.last_text().contains("has completed")).count();
    assert_eq!(turns, 1);
}

#[test]
fn wake_waits_for_thread_in_use() {
    let mock = MockModel::new();
    answer_woken_agent(&mock, || Step::text("I have helped.").held());
    let home = workers_home(&mock);
    let kernel = start_kernel(&home);
    ask_agent(&home, "worker", "Get help").success();
    let thread = last_thread(&home);
    kernel.line_with("kernel agent.replied");
    // As a chat in another process has it.
    let path = home.path(format!("sandbox/data/kernel/threads/{thread}.jsonl"));
    let open = std::fs::File::open(&path).unwrap();
    open.lock().unwrap();
    mock.release();
    let journal = Connection::open(home.path("sandbox/data/kernel/events.db")).unwrap();
    journal.busy_timeout(STUCK_AFTER).unwrap();
    let failed = "SELECT count(*) FROM deliveries WHERE subscriber = 'kernel:user.message'
        AND error LIKE '%is in use%'";
    wait_until("a failed delivery", || {
        journal.query_row(failed, [], |row| row.get::<_, i64>(0)).unwrap() > 0
    });
    drop(open);
    kernel.line_with("kernel agent.replied");
    kernel.interrupt().success();
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(text.matches("Thanks for the help.").count(), 1, "{text}");
}

#[test]
fn open_run_takes_notice_between_requests() {
    let mock = MockModel::new();
    let submit = r#"{"agent":"helper","task":"Help out","key":"k"}"#;
    mock.answer_with(move |request| {
        let results = count_results(request);
        Some(match (mentions(request, "Get help"), results) {
            (false, _) => Step::text("I have helped."),
            (true, 0) => Step::calls("submit_task", submit),
            (true, 1) => Step::calls("echo", r#"{"text": "0"}"#).held(),
            (true, _) if mentions(request, "has completed") => Step::text("They helped."),
            (true, _) => Step::calls("echo", &json!({"text": results.to_string()}).to_string()),
        })
    });
    let home = workers_home(&mock);
    let queue = HomeQueue::open(&home);
    let kernel = start_kernel(&home);
    let asking = home.spawn(["ask", "--agent", "worker", "Get help"]);
    kernel.line_with("kernel task.ended");
    // The handler waits for the thread, which the run has open.
    let journal = Connection::open(home.path("sandbox/data/kernel/events.db")).unwrap();
    journal.busy_timeout(STUCK_AFTER).unwrap();
    let claimed = "SELECT count(*) FROM deliveries
        WHERE subscriber = 'kernel:task.ended' AND state = 'claimed'";
    wait_until("a claimed delivery", || {
        journal.query_row(claimed, [], |row| row.get::<_, i64>(0)).unwrap() > 0
    });
    mock.release();
    let output = asking.finish().success();
    assert!(output.stdout.contains("They helped."), "{output}");
    assert_eq!(result_of(&queue.only_task()), "I have helped.");
    kernel.interrupt().success();
    let thread = last_thread(&home);
    let path = home.path(format!("sandbox/data/kernel/threads/{thread}.jsonl"));
    let text = std::fs::read_to_string(path).unwrap();
    let notices = text.lines().filter(|line| line.contains(r#""entry":"notice""#)).count();
    assert_eq!(notices, 1, "{text}");
}

#[test]
fn delegation_around_a_circle_is_refused() {
    let mock = MockModel::new();
    mock.answer_with(|request| {
        let to = if mentions(request, "Get it done") { "helper" } else { "worker" };
        let call = json!({"agent_id": to, "task": format!("Part for {to}")}).to_string();
        Some(match count_results(request) {
            0 => Step::calls("delegate_task", &call),
            _ => Step::text(&request.last_text()),
        })
    });
    let home = workers_home(&mock);
    let queue = HomeQueue::open(&home);
    let task = queue.submit(task_of("worker", "Get it done"));
    let kernel = start_kernel(&home);
    let ended = queue.wait_for_end(&task.id);
    let refusal = "task came from `worker` and cannot be delegated back to it";
    assert!(result_of(&ended).contains(refusal), "{ended:?}");
    // The task and the part of the helper; none of the worker again.
    let mut targets: Vec<_> = queue.list().into_iter().map(|task| task.target).collect();
    targets.sort_unstable();
    assert_eq!(targets, ["helper", "worker"]);
    assert_eq!(mock.requests().len(), 4);
    kernel.interrupt().success();
}

#[test]
fn second_kernel_leaves_task_alone() {
    let mock = MockModel::with([Step::text("Done.").held()]);
    let home = workers_home(&mock);
    let queue = HomeQueue::open(&home);
    let task = queue.submit(task_of("worker", "One"));
    let kernel = start_kernel(&home);
    let _ = mock.wait_for(1);
    let before = queue.find(&task.id);
    let second = home.skillhost(["run"]).exits(4);
    assert!(second.stderr.contains("skillhost already runs for [HOME]"), "{second}");
    // The kernel of a command executes no task either.
    home.skillhost(["schedule", "list"]).success();
    let after = queue.find(&task.id);
    assert_eq!((before.epoch, before.worker), (after.epoch, after.worker));
    mock.release();
    let ended = queue.wait_for_end(&task.id);
    assert_eq!((result_of(&ended), ended.attempt), ("Done.", 1));
    kernel.interrupt().success();
}

#[test]
fn full_disk_delays_tasks() {
    let mock = MockModel::new();
    mock.answer_with(|_| Some(Step::text("Done.")));
    let home = workers_home(&mock);
    let queue = HomeQueue::open(&home);
    // A write beyond the limit of files fails instead of ending the kernel.
    let mut command = home.command_of(Path::new("/bin/sh"));
    let kernel = home.start(command.args(["-c", "trap '' XFSZ; exec \"$0\" run"]).arg(binary()));
    kernel.line_with("running; Ctrl-C ends it");
    let pid = Pid::from_raw(i32::try_from(kernel.id()).unwrap());
    let unlimited = getrlimit(Resource::Fsize);
    prlimit(pid, Resource::Fsize, Rlimit { current: Some(500_000), ..unlimited }).unwrap();
    // The log of the open file grows beyond the limit of the kernel.
    let never = Some(u64::MAX / 4);
    for part in 0..6 {
        let text = format!("{part}{}", "x".repeat(200_000));
        queue.submit(NewTask { due_ms: never, ..task_of("worker", &text) });
    }
    let task = queue.submit(task_of("worker", "One"));
    let log = std::fs::metadata(home.path("sandbox/data/kernel/work.db-wal")).unwrap().len();
    assert!(log > 600_000, "{log}");
    let status = poll_until("paused tasks", || {
        let status = home.skillhost(["status"]).stdout;
        if status.contains("tasks are paused: ") { Ok(status) } else { Err(status) }
    });
    assert!(status.contains("task store"), "{status}");
    let submitted = home.skillhost(["task", "submit", "worker", "Two"]).success();
    assert!(submitted.stdout.contains("agent worker, ready"), "{submitted}");
    assert_eq!(queue.find(&task.id).state, TaskState::Ready);
    assert!(mock.requests().is_empty());

    prlimit(pid, Resource::Fsize, unlimited).unwrap();
    let second = queue.list().into_iter().find(|task| task.title == "Two").unwrap();
    for id in [&task.id, &second.id] {
        let ended = queue.wait_for_end(id);
        assert_eq!((result_of(&ended), ended.attempt), ("Done.", 1));
    }
    kernel.interrupt().success();
    assert_eq!(mock.requests().len(), 2);
}
