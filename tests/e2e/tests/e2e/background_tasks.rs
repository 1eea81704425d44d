//! Tests of background tasks: submitted by an agent or through the file of the queue, worked on by
//! the kernel, also after it was killed.

use std::time::{Duration, Instant};

use mock_model::{MockModel, Step, Wire};
use skillhost_tasks::{FailureReason, NewTask, TaskBudget, TaskKind, TaskOutcome, TaskState};
use test_support::{TestHome, poll_until};

use crate::agents_scene::{REVIEW, ask_agent, last_thread};
use crate::fixtures::{agent_manifest, repository_root, shipped_manifest, skill_md, start_kernel};
use crate::home_queue::{HomeQueue, failure_of, kill, result_of};

const REVIEW_TASK: &str = "Review the kv extension for best practices";

/// Creates a home with the shipped worker, an orchestrator that submits tasks, and a skill.
fn tasks_home(mock: &MockModel) -> TestHome {
    let orchestrator = "  instructions: You organize.\n  uses_tools: [tasks, echo]\n";
    let prompt = repository_root().join("manifests/task_worker_agent/prompt.jinja2");
    TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .manifest("core_tools", &shipped_manifest("core_tools"))
        .manifest("echo", &shipped_manifest("echo"))
        .manifest("task_worker_agent", &shipped_manifest("task_worker_agent"))
        .file("manifests/task_worker_agent/prompt.jinja2", std::fs::read(prompt).unwrap())
        .manifest("orchestrator_agent", &agent_manifest("orchestrator_agent", orchestrator))
        .skill("code-review", &skill_md("Reviews code. Use when asked for a review.", REVIEW))
        .settings(&mock.settings(Wire::Openai))
        .trusted()
}

fn agent_task(text: &str) -> NewTask {
    NewTask::new(TaskKind::Agent, "task_worker_agent", text)
}

/// Waits until a thread has a notice, and returns the number of its notices.
fn wait_for_notices(home: &TestHome, thread: &str) -> usize {
    let path = home.path(format!("sandbox/data/kernel/threads/{thread}.jsonl"));
    poll_until("a notice", || {
        let text = std::fs::read_to_string(&path).unwrap();
        let count = text.lines().filter(|line| line.contains(r#""entry":"notice""#)).count();
        if count > 0 { Ok(count) } else { Err(text) }
    })
}

fn count_ends(home: &TestHome) -> usize {
    let events = home.skillhost(["event", "tail", "--topic", "task.ended", "--json"]).success();
    events.stdout.lines().filter(|line| line.contains("task.ended")).count()
}

fn submit_call() -> Step {
    let arguments = format!(r#"{{"agent":"task_worker_agent","task":"{REVIEW_TASK}","key":"kv"}}"#);
    Step::calls("submit_task", &arguments)
}

/// Answers the orchestrator and the worker of the review.
fn answer_review(mock: &MockModel, last: fn() -> Step) {
    mock.answer_with(move |request| {
        let messages = request.messages();
        let asks = |text: &str| messages.iter().any(|message| message.text.contains(text));
        let calls = messages.iter().filter(|message| message.role == "tool").count();
        Some(match (asks("Get kv reviewed"), calls) {
            (true, 0) => submit_call(),
            (true, _) => Step::text("Submitted."),
            (false, 0) => Step::calls("read_skill", r#"{"skill_id":"code-review"}"#),
            (false, _) => last(),
        })
    });
}

#[test]
fn submitted_review_is_announced() {
    let mock = MockModel::new();
    answer_review(&mock, || Step::text("kv opens the door twice."));
    let home = tasks_home(&mock);
    let kernel = start_kernel(&home);
    let output = ask_agent(&home, "orchestrator_agent", "Get kv reviewed").success();
    assert!(output.stdout.contains("Submitted."), "{output}");
    let thread = last_thread(&home);
    kernel.line_with("kernel task.ended");
    assert_eq!(wait_for_notices(&home, &thread), 1);
    let task = HomeQueue::open(&home).only_task();
    assert_eq!(result_of(&task), "kv opens the door twice.");
    let worker = mock.requests().into_iter().rfind(|request| !request.last_text().contains("kv\""));
    assert!(worker.unwrap().system().contains("code-review"));
    kernel.interrupt().success();
    assert_eq!(count_ends(&home), 1);
}

#[test]
fn killed_kernel_continues_the_review() {
    let mock = MockModel::new();
    answer_review(&mock, || Step::text("kv is fine.").held());
    let home = tasks_home(&mock);
    let kernel = start_kernel(&home);
    ask_agent(&home, "orchestrator_agent", "Get kv reviewed").success();
    let thread = last_thread(&home);
    // Two requests of the orchestrator, and the second one of the worker.
    let _ = mock.wait_for(4);
    kill(kernel);
    mock.release();
    let kernel = start_kernel(&home);
    mock.release();
    kernel.line_with("kernel task.ended");
    assert_eq!(wait_for_notices(&home, &thread), 1);
    let task = HomeQueue::open(&home).only_task();
    assert_eq!((result_of(&task), task.attempt, task.spent.turns), ("kv is fine.", 2, 3));
    kernel.interrupt().success();
    assert_eq!(count_ends(&home), 1);
}

#[test]
fn task_submitted_before_start_runs() {
    let mock = MockModel::with([Step::text("First."), Step::text("Second.")]);
    let home = tasks_home(&mock);
    let queue = HomeQueue::open(&home);
    let first = queue.submit(agent_task("One"));
    let kernel = start_kernel(&home);
    let ended = queue.wait_for_end(&first.id);
    assert_eq!((result_of(&ended), ended.spent.turns, ended.spent.tokens), ("First.", 1, 15));
    let second = queue.submit(agent_task("Two"));
    assert_eq!(result_of(&queue.wait_for_end(&second.id)), "Second.");
    kernel.interrupt().success();
}

#[test]
fn running_task_is_cancelled_soon() {
    let mock = MockModel::with([Step::text("Never.").held()]);
    let home = tasks_home(&mock);
    let queue = HomeQueue::open(&home);
    let task = queue.submit(agent_task("One"));
    let kernel = start_kernel(&home);
    let _ = mock.wait_for(1);
    let start = Instant::now();
    queue.cancel(&task.id);
    let ended = queue.wait_for_end(&task.id);
    assert_eq!(ended.outcome, Some(TaskOutcome::Cancelled { by: "operator".into() }));
    // Without a notice of the change, the kernel would read the task after up to five seconds.
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    kernel.interrupt().success();
}

#[test]
fn missing_agent_fails_its_task() {
    let mock = MockModel::new();
    let home = tasks_home(&mock);
    let queue = HomeQueue::open(&home);
    let task = queue.submit(NewTask::new(TaskKind::Agent, "gone_agent", "One"));
    let after = NewTask { after: vec![task.id.clone()], ..agent_task("Two") };
    let after = queue.submit(after);
    let kernel = start_kernel(&home);
    let ended = queue.wait_for_end(&task.id);
    assert_eq!(failure_of(&ended), FailureReason::Target);
    assert_eq!(failure_of(&queue.wait_for_end(&after.id)), FailureReason::Dependency);
    kernel.interrupt().success();
}

#[test]
fn damaged_queue_leaves_kernel_running() {
    let mock = MockModel::with([Step::text("Hi.")]);
    let home = tasks_home(&mock);
    let damaged = vec![7; 8192];
    home.write("sandbox/data/kernel/work.db", &damaged);
    let kernel = start_kernel(&home);
    ask_agent(&home, "orchestrator_agent", "Hi").success();
    kernel.interrupt().success();
    assert_eq!(std::fs::read(home.path("sandbox/data/kernel/work.db")).unwrap(), damaged);
}

#[test]
fn spent_budget_fails_the_task() {
    let mock = MockModel::with([Step::calls("list_agents", "{}"), Step::text("Never.")]);
    let home = tasks_home(&mock);
    let queue = HomeQueue::open(&home);
    let budget = TaskBudget { turns: Some(1), ..TaskBudget::default() };
    let task = queue.submit(NewTask { budget, ..agent_task("One") });
    let kernel = start_kernel(&home);
    let ended = queue.wait_for_end(&task.id);
    assert_eq!((failure_of(&ended), ended.spent.turns), (FailureReason::Budget, 1));
    kernel.interrupt().success();
}

#[test]
fn approval_of_a_task_waits_parked() {
    let write = r#"{"path": "notes.txt", "content": "kept"}"#;
    let mock = MockModel::with([Step::calls("write_file", write), Step::text("Written.")]);
    let home = tasks_home(&mock);
    let queue = HomeQueue::open(&home);
    let task = queue.submit(agent_task("Write it"));
    let kernel = start_kernel(&home);
    let waiting = queue.wait_for(&task.id, |task| task.state == TaskState::Waiting);
    assert_eq!((waiting.waits.questions.len(), waiting.worker), (1, None));
    let question = queue.only_question();
    assert!(!home.path("sandbox/notes.txt").exists() && question.subject.contains("notes.txt"));
    // The question survives the kernel.
    kill(kernel);
    let kernel = start_kernel(&home);
    queue.decide(&question, "approve");
    assert_eq!(result_of(&queue.wait_for_end(&task.id)), "Written.");
    assert_eq!(std::fs::read_to_string(home.path("sandbox/notes.txt")).unwrap(), "kept");
    kernel.interrupt().success();
}

#[test]
fn delegation_is_subtask_with_budget() {
    let mock = MockModel::new();
    let task = r#"{"agent_id":"task_worker_agent","task":"Look at kv"}"#;
    mock.answer_with(move |request| {
        let messages = request.messages();
        let is_worker = messages.iter().any(|message| message.text == "Look at kv");
        let calls = messages.iter().filter(|message| message.role == "tool").count();
        Some(match (is_worker, calls) {
            (true, _) => Step::text("kv is fine.").held(),
            (false, 0) => Step::calls("delegate_task", task),
            (false, _) => Step::text(&format!("Heard: {}", request.last_text())),
        })
    });
    let manager = "  instructions: You delegate.\n  uses_tools: [kernel]\n";
    let home =
        tasks_home(&mock).manifest("manager_agent", &agent_manifest("manager_agent", manager));
    let home = home.trusted();
    let queue = HomeQueue::open(&home);
    let budget = TaskBudget { turns: Some(10), ..TaskBudget::default() };
    let new = NewTask::new(TaskKind::Agent, "manager_agent", "Get it done");
    let parent = queue.submit(NewTask { budget, ..new });
    let kernel = start_kernel(&home);
    let _ = mock.wait_for(2);
    let waiting = queue.wait_for(&parent.id, |task| task.state == TaskState::Waiting);
    // Half of the nine turns that were left, and no worker.
    assert_eq!((waiting.worker, waiting.reserved.turns), (None, 5));
    let status = home.skillhost(["status", "--json"]).success().json();
    let tasks = serde_json::json!({ "running": 1, "waiting": 1 });
    assert_eq!(
        (&status["kernel"]["tasks"], &status["kernel"]["open_questions"]),
        (&tasks, &0.into())
    );
    kill(kernel);
    mock.release();
    let kernel = start_kernel(&home);
    let _ = mock.wait_for(3);
    mock.release();
    let ended = queue.wait_for_end(&parent.id);
    assert_eq!(result_of(&ended), "Heard: kv is fine.");
    // The turn of the killed attempt counts; the rest of the reservation is returned.
    let child = queue.list().into_iter().find(|task| task.parent.is_some()).unwrap();
    assert_eq!((ended.spent.turns, ended.reserved.turns), (2 + child.spent.turns, 0));
    assert_eq!((queue.list().len(), child.depth, child.budget.turns), (2, 1, Some(5)));
    kernel.interrupt().success();
}

#[test]
fn delegation_back_is_refused() {
    let mock = MockModel::new();
    mock.answer_with(|request| {
        let calls = request.messages().iter().filter(|message| message.role == "tool").count();
        Some(match calls {
            0 => Step::calls("delegate_task", r#"{"agent_id":"manager_agent","task":"Again"}"#),
            _ => Step::text(&request.last_text()),
        })
    });
    let manager = "  instructions: You delegate.\n  uses_tools: [kernel]\n";
    let home =
        tasks_home(&mock).manifest("manager_agent", &agent_manifest("manager_agent", manager));
    let home = home.trusted();
    let queue = HomeQueue::open(&home);
    let task = queue.submit(NewTask::new(TaskKind::Agent, "manager_agent", "Get it done"));
    let kernel = start_kernel(&home);
    let ended = queue.wait_for_end(&task.id);
    assert!(result_of(&ended).contains("cannot be delegated back to it"), "{ended:?}");
    assert_eq!(queue.list().len(), 1);
    kernel.interrupt().success();
}
