//! Tests of tasks that event subscriptions and schedules start: once for each event and run, in order,
//! also if the kernel is killed in between.

use std::time::{Duration, Instant};

use mock_model::{MockModel, Step, Wire};
use rusqlite::Connection;
use serde_json::{Value, json};
use skillhost_tasks::{FailureReason, NewTask, SubmitterOrigin, TaskKind, TaskOutcome, TaskState};
use test_support::{Background, STUCK_AFTER, TestHome, example_library, poll_until, wait_until};

use crate::fixtures::{agent_manifest, shipped_manifest, start_kernel};
use crate::home_queue::{HomeQueue, failure_of, kill, result_of};

const SUBSCRIBER: &str = "looker:news:invoke_agent";
/// A pattern that is due on one day in February of a leap year.
const RARE: &str = "0 0 29 2 *";

/// Creates a home in which the agent `looker` has a subscription to a topic and a daily schedule, and
/// the tool `bad` publishes events.
fn looker_home(mock: &MockModel, topic: &str) -> TestHome {
    let looker = looker_manifest(topic, "Look: {{ payload.what }}", "");
    TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .manifest("core_tools", &shipped_manifest("core_tools"))
        .manifest("bad", "id: bad\nname: Bad\nentrypoint: misbehave\n")
        .library("bad", "misbehave", &example_library("misbehave"))
        .manifest("looker", &looker)
        .settings(&mock.settings(Wire::Openai))
        .trusted()
}

fn looker_manifest(topic: &str, prompt: &str, limits: &str) -> String {
    agent_manifest(
        "looker",
        &format!(
            "  instructions: You look.\n  uses_tools: [bad, core_tools, kernel]\nevents:\n  \
             subscribes:\n    - {{topic: {topic}, handler: invoke_agent, prompt: '{prompt}'{limits}}}\n\
             schedules:\n  - {{name: look, cron: '{RARE}', prompt: Look around.{limits}}}\n"
        ),
    )
}

fn emit_news(home: &TestHome, what: &str) {
    let call = json!({"do": "emit", "topic": "news", "payload": {"what": what}});
    home.skillhost(["tool", "call", "bad", &call.to_string()]).success();
}

fn run_schedule(home: &TestHome) -> Background {
    home.spawn(["schedule", "run", "looker/look"])
}

/// Waits until the queue has a number of tasks, and returns their ids, the oldest first.
fn wait_for_tasks(queue: &HomeQueue, count: usize) -> Vec<skillhost_tasks::Task> {
    let start = Instant::now();
    loop {
        let mut tasks = queue.list();
        if tasks.len() == count {
            tasks.reverse();
            return tasks;
        }
        assert!(tasks.len() < count && start.elapsed() < STUCK_AFTER, "{tasks:#?}");
        queue.runtime.block_on(queue.queue.store().wait_for_change(Duration::from_millis(50)));
    }
}

/// Opens the journal beside the kernel.
fn open_journal(home: &TestHome) -> Connection {
    let journal = Connection::open(home.path("sandbox/data/kernel/events.db")).unwrap();
    journal.busy_timeout(STUCK_AFTER).unwrap();
    journal
}

/// Returns the states of the deliveries to the agent.
fn delivery_states(journal: &Connection) -> Vec<String> {
    let select = "SELECT state FROM deliveries WHERE subscriber = ?1";
    let mut statement = journal.prepare(select).unwrap();
    let rows = statement.query_map([SUBSCRIBER], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

fn wait_for_deliveries(journal: &Connection, expected: &[&str]) {
    poll_until("the states of the deliveries", || {
        let states = delivery_states(journal);
        if states == expected { Ok(()) } else { Err(states) }
    });
}

/// Returns the events of a topic.
fn list_events(home: &TestHome, topic: &str) -> Vec<Value> {
    let listed = home.skillhost(["event", "tail", "--topic", topic, "--json"]).success();
    let events = listed.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
    events.filter(|event: &Value| event["topic"].is_string()).collect()
}

#[test]
fn event_submits_task() {
    let mock = MockModel::with([Step::text("It is open.")]);
    let home = looker_home(&mock, "news");
    let queue = HomeQueue::open(&home);
    let kernel = start_kernel(&home);
    emit_news(&home, "the door");
    kernel.line_with("kernel task.ended");
    let task = queue.only_task();
    assert_eq!((result_of(&task), task.target.as_str()), ("It is open.", "looker"));
    assert_eq!((task.scope.as_str(), task.lane.as_deref()), ("event", Some(SUBSCRIBER)));
    let event = &list_events(&home, "news")[0];
    let key = format!("{SUBSCRIBER}:{}@{}", event["id"], event["at_ms"]);
    assert_eq!(task.key, Some(key));
    assert_eq!(task.submitter.correlation_id.as_deref(), event["correlation_id"].as_str());
    // The limit of a run that an event starts.
    assert_eq!(task.budget.time_ms, Some(600_000));
    let shown = home.skillhost(["task", "show", task.id.as_str()]).success().stdout;
    assert!(shown.contains(&format!("by event {SUBSCRIBER}")), "{shown}");
    let listed = home.skillhost(["task", "list"]).success().stdout;
    assert!(listed.contains(&format!("event {SUBSCRIBER}")), "{listed}");
    kernel.interrupt().success();
}

#[test]
fn redelivered_event_submits_once() {
    let mock = MockModel::with([Step::text("Seen.").held(), Step::text("Seen again.")]);
    let home = looker_home(&mock, "news");
    let queue = HomeQueue::open(&home);
    queue.submit(NewTask {
        due_ms: Some(u64::MAX / 4),
        ..NewTask::new(TaskKind::Agent, "looker", "Never.")
    });
    let kernel = start_kernel(&home);
    let journal = open_journal(&home);
    let work = Connection::open(home.path("sandbox/data/kernel/work.db")).unwrap();
    work.busy_timeout(STUCK_AFTER).unwrap();
    // The submission waits until the journal cannot store its outcome.
    work.execute_batch("BEGIN IMMEDIATE").unwrap();
    emit_news(&home, "the door");
    wait_for_deliveries(&journal, &["claimed"]);
    journal.execute_batch("BEGIN IMMEDIATE").unwrap();
    work.execute_batch("ROLLBACK").unwrap();
    let submitted = wait_for_tasks(&queue, 2).pop().unwrap();
    let _ = mock.wait_for(1);
    kill(kernel);
    journal.execute_batch("ROLLBACK").unwrap();
    assert_eq!(delivery_states(&journal), ["claimed"]);
    // Another text of the same event is the same task, too.
    home.write("manifests/looker/manifest.yaml", looker_manifest("news", "Listen.", ""));
    let home = home.trusted();
    mock.release();
    let kernel = start_kernel(&home);
    wait_for_deliveries(&journal, &[]);
    assert_eq!(result_of(&queue.wait_for_end(&submitted.id)), "Seen again.");
    kernel.interrupt().success();
    assert_eq!(queue.list().len(), 2);
    let dead = home.skillhost(["event", "dead-letters"]).success();
    assert_eq!(dead.stdout, "");
}

#[test]
fn events_keep_their_order() {
    let mock = MockModel::new();
    mock.answer_with(|request| {
        let messages = request.messages();
        let asks = |text: &str| messages.iter().any(|message| message.text == text);
        let is_first_request = messages.iter().all(|message| message.role != "tool");
        Some(match asks("Look: 0") && is_first_request {
            true => Step::calls("write_file", r#"{"path": "note.txt", "content": "0"}"#),
            false => Step::text("Seen."),
        })
    });
    let home = looker_home(&mock, "news");
    let queue = HomeQueue::open(&home);
    let kernel = start_kernel(&home);
    (0..4).for_each(|n| emit_news(&home, &n.to_string()));
    let tasks = wait_for_tasks(&queue, 4);
    // The approval is asked for, not refused, and the later ones wait for it.
    queue.wait_for(&tasks[0].id, |task| task.state == TaskState::Waiting);
    let later = tasks[1..].iter().map(|task| queue.find(&task.id).state);
    assert_eq!(later.collect::<Vec<_>>(), [TaskState::Ready; 3]);
    queue.decide(&queue.only_question(), "approve");
    tasks.iter().for_each(|task| drop(queue.wait_for_end(&task.id)));
    let texts = mock.requests().into_iter().filter_map(|request| {
        let messages = request.messages();
        let is_later = messages.iter().any(|message| message.role == "tool");
        (!is_later).then(|| request.last_text())
    });
    let expected = ["Look: 0", "Look: 1", "Look: 2", "Look: 3"];
    assert_eq!(texts.collect::<Vec<_>>(), expected);
    kernel.interrupt().success();
}

#[test]
fn events_of_started_tasks_start_none() {
    let mock = MockModel::new();
    mock.answer_with(|_| Some(Step::text("Seen.")));
    let home = looker_home(&mock, "task");
    home.write("manifests/looker/manifest.yaml", looker_manifest("task", "{{ event.topic }}", ""));
    let home = home.trusted();
    let queue = HomeQueue::open(&home);
    let kernel = start_kernel(&home);
    let own = queue.submit(NewTask::new(TaskKind::Agent, "looker", "Look."));
    // One for its submission and one for its end.
    let tasks = wait_for_tasks(&queue, 3);
    tasks.iter().for_each(|task| drop(queue.wait_for_end(&task.id)));
    kernel.interrupt().success();
    // The next kernel delivers everything that is left.
    let kernel = start_kernel(&home);
    let journal = open_journal(&home);
    let open = "SELECT count(*) FROM deliveries";
    wait_until("the end of all deliveries", || {
        journal.query_row(open, [], |row| row.get::<_, i64>(0)).unwrap() == 0
    });
    kernel.interrupt().success();
    let inputs = queue.list().into_iter().filter(|task| task.id != own.id).map(|task| task.title);
    let mut inputs: Vec<_> = inputs.collect();
    inputs.sort_unstable();
    assert_eq!(inputs, ["task.ended", "task.submitted"]);
}

#[test]
fn missing_agent_makes_dead_letter() {
    let mock = MockModel::new();
    let home = looker_home(&mock, "news")
        .settings(&format!("events: {{retry_ms: [1]}}\n{}", mock.settings(Wire::Openai)));
    let text = looker_manifest("news", "Look.", ", agent: gone_agent").replacen(
        "Look around., agent: gone_agent",
        "Look around.",
        1,
    );
    home.write("manifests/looker/manifest.yaml", text);
    let home = home.trusted();
    let kernel = start_kernel(&home);
    emit_news(&home, "the door");
    kernel.line_with("event.dead");
    let dead = home.skillhost(["event", "dead-letters", "--json"]).success().json();
    let error = dead["error"].as_str().unwrap();
    assert!(error.contains("agent `gone_agent` not found"), "{error}");
    kernel.interrupt().success();
    assert_eq!(HomeQueue::open(&home).list().len(), 0);
}

#[test]
fn schedule_submits_task() {
    let write = r#"{"path": "note.txt", "content": "0"}"#;
    let mock = MockModel::with([
        Step::calls("write_file", write),
        Step::text("I looked around.\nAll is well."),
    ]);
    let home = looker_home(&mock, "news");
    let queue = HomeQueue::open(&home);
    let kernel = start_kernel(&home);
    let running = run_schedule(&home);
    let task = wait_for_tasks(&queue, 1).pop().unwrap();
    queue.wait_for(&task.id, |task| task.state == TaskState::Waiting);
    let again = home.skillhost(["schedule", "run", "looker/look"]).exits(4);
    assert!(again.stderr.contains("`looker/look` is already running"), "{again}");
    queue.decide(&queue.only_question(), "refuse");
    let output = running.finish().success();
    assert!(output.stdout.trim_end().ends_with(": I looked around."), "{output}");
    assert!(!home.path("sandbox/note.txt").exists());
    let task = queue.only_task();
    assert_eq!((task.scope.as_str(), task.state), ("schedule", TaskState::Completed));
    let ran = list_events(&home, "schedule");
    assert_eq!((ran.len(), &ran[0]["topic"]), (1, &json!("schedule.ran")));
    assert_eq!((task.key.as_deref(), task.submitter.origin), {
        (ran[0]["correlation_id"].as_str(), SubmitterOrigin::Schedule)
    });
    let listed = home.skillhost(["task", "list"]).success().stdout;
    assert!(listed.contains("schedule looker/look"), "{listed}");
    kernel.interrupt().success();
}

#[test]
fn killed_kernel_follows_scheduled_task() {
    let mock = MockModel::with([Step::text("Seen.").held(), Step::text("Seen again.").held()]);
    let home = looker_home(&mock, "news");
    let queue = HomeQueue::open(&home);
    let kernel = start_kernel(&home);
    let running = run_schedule(&home);
    let _ = mock.wait_for(1);
    kill(kernel);
    let lost = running.finish().exits(1);
    assert!(lost.stderr.contains("may have run"), "{lost}");
    mock.release();
    let kernel = start_kernel(&home);
    let _ = mock.wait_for(2);
    // In order, too: the run ends with its task, in the third kernel.
    mock.push(Step::text("Seen at last."));
    kernel.interrupt().success();
    assert!(list_events(&home, "schedule").is_empty());
    mock.release();
    let kernel = start_kernel(&home);
    kernel.line_with("schedule.ran looker/look");
    kernel.interrupt().success();
    let task = queue.only_task();
    assert!(result_of(&task).starts_with("Seen"), "{task:?}");
    assert_eq!(list_events(&home, "schedule").len(), 1);
    let listed = home.skillhost(["--json", "schedule", "list"]).success().json();
    let last = &listed["schedules"][0]["last"];
    assert!(last["error"].is_null() && last["took_ms"].is_u64(), "{last}");
}

#[test]
fn end_of_scheduled_task_is_reported_once() {
    let mock = MockModel::with([Step::text("Seen.").held()]);
    let home = looker_home(&mock, "news");
    let queue = HomeQueue::open(&home);
    let kernel = start_kernel(&home);
    let running = run_schedule(&home);
    let _ = mock.wait_for(1);
    kill(kernel);
    drop(running.finish());
    // It ends while no kernel runs.
    queue.cancel(&queue.only_task().id);
    let kernel = start_kernel(&home);
    let failed = kernel.line_with("schedule.failed looker/look");
    assert!(failed.contains("its task was cancelled by operator"), "{failed}");
    kernel.interrupt().success();
    start_kernel(&home).interrupt().success();
    assert_eq!(list_events(&home, "schedule").len(), 1);
}

#[test]
fn time_limit_names_the_manifest() {
    let mock = MockModel::with([Step::text("Never.").held()]);
    let home = looker_home(&mock, "news");
    home.write(
        "manifests/looker/manifest.yaml",
        looker_manifest("news", "Look.", ", timeout_ms: 200"),
    );
    let home = home.trusted();
    let queue = HomeQueue::open(&home);
    let kernel = start_kernel(&home);
    let failed = run_schedule(&home).finish().exits(1);
    assert!(failed.stderr.contains("raise `timeout_ms` of the schedule"), "{failed}");
    let task = queue.only_task();
    assert_eq!((failure_of(&task), task.budget.time_ms), (FailureReason::Budget, Some(200)));
    let event = &list_events(&home, "schedule.failed")[0]["payload"];
    assert!(event["hint"].as_str().unwrap().contains("task retry"), "{event}");
    kernel.interrupt().success();
}

#[test]
fn damaged_queue_reports_each_start() {
    let mock = MockModel::with([Step::text("Seen.")]);
    let home = looker_home(&mock, "news")
        .settings(&format!("events: {{retry_ms: [1]}}\n{}", mock.settings(Wire::Openai)));
    let home = home.trusted();
    let damaged = vec![7; 8192];
    home.write("sandbox/data/kernel/work.db", &damaged);
    let kernel = start_kernel(&home);
    emit_news(&home, "the door");
    kernel.line_with("event.dead");
    let dead = home.skillhost(["event", "dead-letters", "--json"]).success().json();
    let error = dead["error"].as_str().unwrap();
    assert!(error.starts_with("task could not be submitted: the task store is damaged"), "{error}");
    assert!(error.contains("work.db"), "{error}");
    let failed = run_schedule(&home).finish();
    assert!(failed.stderr.contains("the task store is damaged"), "{failed}");
    assert!(failed.stderr.contains("restore `work.db` from a backup"), "{failed}");
    kernel.line_with("schedule.failed");
    kernel.interrupt().success();
    assert_eq!(std::fs::read(home.path("sandbox/data/kernel/work.db")).unwrap(), damaged);
    assert!(mock.requests().is_empty());

    // Repaired, the dead letter can be delivered.
    std::fs::remove_file(home.path("sandbox/data/kernel/work.db")).unwrap();
    let kernel = start_kernel(&home);
    home.skillhost(["event", "retry", &dead["id"].to_string()]).success();
    kernel.line_with("kernel task.ended");
    let task = HomeQueue::open(&home).only_task();
    assert!(matches!(task.outcome, Some(TaskOutcome::Completed { .. })), "{task:?}");
    kernel.interrupt().success();
}
