//! Tests of tasks that are one tool call: approvals, interruptions and errors of the call.

use serde_json::{Value, json};
use skillhost_tasks::{
    FailureReason, NewTask, QuestionKind, SubmitterOrigin, Task, TaskKind, TaskOutcome, TaskState,
    TaskSubmitter,
};
use test_support::{TestHome, example_library};

use crate::agents_scene::ToolBarrier;
use crate::fixtures::{shipped_manifest, start_kernel};
use crate::home_queue::{HomeQueue, failure_of, kill, result_of};

const RECORD: &str = r#"{"do":"key"}"#;
const HANG: &str = r#"{"do":"key","hang":true}"#;
const NOTE: &str = r#"{"path":"extensions/x/manifest.yaml","content":"id: x\n"}"#;

/// Creates a home with the tool `bad`, whose calls are recorded.
fn recording_home(config: &str) -> TestHome {
    let manifest = format!("id: bad\nname: Bad\nentrypoint: misbehave\nconfig: {config}\n");
    TestHome::new()
        .manifest("core_tools", &shipped_manifest("core_tools"))
        .manifest("bad", &manifest)
        .library("bad", "misbehave", &example_library("misbehave"))
        .settings("mcp: {catalog: none}\n")
        .trusted()
}

fn count_calls(home: &TestHome) -> usize {
    let record = std::fs::read_to_string(home.path("record")).unwrap();
    record.lines().filter(|line| line.starts_with("bad bad ")).count()
}

fn tool_task(origin: SubmitterOrigin, tool: &str, arguments: &str) -> NewTask {
    let agent = (origin != SubmitterOrigin::Operator).then(|| "worker".to_owned());
    let submitter = TaskSubmitter { origin, agent, ..TaskSubmitter::default() };
    NewTask { submitter, ..NewTask::new(TaskKind::Tool, tool, arguments) }
}

fn is_waiting(task: &Task) -> bool {
    task.state == TaskState::Waiting
}

/// Returns the text of a task that completed with an error.
fn refusal_of(task: &Task) -> &str {
    match &task.outcome {
        Some(TaskOutcome::Completed { text, is_error: true, .. }) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn approved_call_is_made_once() {
    for origin in [SubmitterOrigin::Agent, SubmitterOrigin::Mcp] {
        let home = recording_home("{effect: once, approval: always}");
        let queue = HomeQueue::open(&home);
        let task = queue.submit(tool_task(origin, "bad", RECORD));
        let kernel = start_kernel(&home);
        let waiting = queue.wait_for(&task.id, is_waiting);
        let question = queue.only_question();
        assert_eq!((waiting.worker, question.kind), (None, QuestionKind::Consent));
        let subject: Value = serde_json::from_str(&question.subject).unwrap();
        assert_eq!((&subject["arguments"], &subject["agent"]), (&json!(RECORD), &json!("worker")));
        assert_eq!(count_calls(&home), 0);
        // The question survives the kernel, and its answer is enough for the next one.
        kill(kernel);
        queue.decide(&question, "approve");
        let kernel = start_kernel(&home);
        queue.wait_for_end(&task.id);
        assert_eq!(count_calls(&home), 1);
        kernel.interrupt().success();
    }
}

#[test]
fn own_call_of_operator_runs() {
    let home = recording_home("{effect: once, approval: always}");
    let queue = HomeQueue::open(&home);
    let task = queue.submit(tool_task(SubmitterOrigin::Operator, "bad", RECORD));
    let kernel = start_kernel(&home);
    queue.wait_for_end(&task.id);
    assert_eq!(count_calls(&home), 1);
    kernel.interrupt().success();
}

#[test]
fn refused_call_ends_its_task() {
    let home = recording_home("{effect: once, approval: always}");
    let queue = HomeQueue::open(&home);
    let task = queue.submit(tool_task(SubmitterOrigin::Agent, "bad", RECORD));
    let kernel = start_kernel(&home);
    queue.wait_for(&task.id, is_waiting);
    queue.decide(&queue.only_question(), "refuse");
    let ended = queue.wait_for_end(&task.id);
    assert_eq!(refusal_of(&ended), "call of `bad` was not approved");
    assert_eq!(count_calls(&home), 0);
    kernel.interrupt().success();
}

#[test]
fn changed_bytes_are_not_executed() {
    let home = recording_home("{}");
    home.write("sandbox/extensions/x/manifest.yaml", "id: y\n");
    let queue = HomeQueue::open(&home);
    let task = queue.submit(tool_task(SubmitterOrigin::Agent, "write_file", NOTE));
    let kernel = start_kernel(&home);
    queue.wait_for(&task.id, is_waiting);
    let shown = queue.only_question();
    assert!(shown.subject.contains("-id: y"), "{}", shown.subject);
    home.write("sandbox/extensions/x/manifest.yaml", "id: z\n");
    queue.decide(&shown, "approve");
    // The approval was for other bytes: they are asked about, and nothing is written.
    queue.wait_for(&task.id, |task| is_waiting(task) && !task.waits.questions.contains(&shown.id));
    let next = queue.only_question();
    assert!(next.subject.contains("-id: z") && next.digest != shown.digest, "{}", next.subject);
    let manifest = home.path("sandbox/extensions/x/manifest.yaml");
    assert_eq!(std::fs::read_to_string(&manifest).unwrap(), "id: z\n");
    queue.decide(&next, "approve");
    queue.wait_for_end(&task.id);
    assert_eq!(std::fs::read_to_string(&manifest).unwrap(), "id: x\n");
    kernel.interrupt().success();
}

#[test]
fn killed_once_call_asks() {
    for (choice, calls) in [("happened", 1), ("again", 2), ("stop", 1)] {
        let home = recording_home("{effect: once}");
        let barrier = ToolBarrier::bind(&home);
        let queue = HomeQueue::open(&home);
        let task = queue.submit(tool_task(SubmitterOrigin::Agent, "bad", HANG));
        let kernel = start_kernel(&home);
        let blocked = barrier.wait_for_call();
        kill(kernel);
        drop(blocked);
        let kernel = start_kernel(&home);
        queue.wait_for(&task.id, is_waiting);
        let question = queue.only_question();
        assert_eq!((question.kind, count_calls(&home)), (QuestionKind::Uncertain, 1));
        queue.decide(&question, choice);
        let ended = queue.wait_for_end(&task.id);
        match choice {
            "stop" => assert_eq!(failure_of(&ended), FailureReason::Error),
            "happened" => assert!(result_of(&ended).contains("a person confirmed"), "{ended:?}"),
            _ => drop(result_of(&ended).to_owned()),
        }
        assert_eq!(count_calls(&home), calls, "{choice}");
        kernel.interrupt().success();
    }
}

#[test]
fn panic_of_tool_is_a_crash() {
    let home = recording_home("{effect: once}");
    let queue = HomeQueue::open(&home);
    let panics = r#"{"do":"act","act":"panic"}"#;
    let task = queue.submit(tool_task(SubmitterOrigin::Agent, "bad", panics));
    let fails = r#"{"do":"act","act":"fail"}"#;
    let other = queue.submit(tool_task(SubmitterOrigin::Agent, "bad", fails));
    let missing = queue.submit(tool_task(SubmitterOrigin::Agent, "no_such_tool", "{}"));
    let kernel = start_kernel(&home);
    assert_eq!(failure_of(&queue.wait_for_end(&task.id)), FailureReason::Crash);
    assert_eq!(failure_of(&queue.wait_for_end(&other.id)), FailureReason::Error);
    assert_eq!(failure_of(&queue.wait_for_end(&missing.id)), FailureReason::Target);
    kernel.interrupt().success();
}

#[test]
fn call_of_mcp_client_has_catalog() {
    let home = recording_home("{}");
    let queue = HomeQueue::open(&home);
    let context = r#"{"do":"context"}"#;
    let client = queue.submit(tool_task(SubmitterOrigin::Mcp, "bad", context));
    let agent = queue.submit(tool_task(SubmitterOrigin::Agent, "bad", context));
    let kernel = start_kernel(&home);
    let catalog = |task: &Task| match queue.wait_for_end(&task.id).outcome {
        Some(TaskOutcome::Completed { structured: Some(context), .. }) => {
            (context["origin"].clone(), context["catalog"].clone())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(catalog(&client), (json!("mcp"), json!("none")));
    assert_eq!(catalog(&agent), (json!("agent"), json!("all")));
    kernel.interrupt().success();
}
