//! Tests of durable events: delivery to manifest handlers, retries, dead letters, listing.

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::{UnixListener, UnixStream};

use mock_model::{MockModel, Step, Wire};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use test_support::{Background, Output, TestHome, example_library};

use crate::fixtures::{agent_manifest, shipped_manifest, start_kernel};

/// Creates a trusted home in which the library `misbehave` handles the topic `work` by `act`.
fn misbehaving_home(act: &str, settings: &str) -> TestHome {
    let bad = format!(
        "id: bad\nname: Bad\nentrypoint: misbehave\nconfig: {{parts: {{event: {act}}}}}\n\
         events: {{subscribes: [{{topic: work, handler: custom}}]}}\n"
    );
    TestHome::new()
        .manifest("skill_registry", &shipped_manifest("skill_registry"))
        .manifest("bad", &bad)
        .library("bad", "misbehave", &example_library("misbehave"))
        .settings(&format!("events: {{retry_ms: [1, 1, 1]}}\n{settings}"))
        .trusted()
}

/// Publishes an event in the running kernel.
fn emit_event(home: &TestHome, topic: &str, payload: &Value) {
    set_behavior(home, &json!({"do": "emit", "topic": topic, "payload": payload}));
}

fn set_behavior(home: &TestHome, call: &Value) {
    home.skillhost(["tool", "call", "bad", &call.to_string()]).success();
}

/// A socket to which an event handler connects before it blocks.
struct HandlerBarrier(UnixListener);

impl HandlerBarrier {
    fn bind(home: &TestHome) -> Self {
        Self(UnixListener::bind(home.path("gate")).unwrap())
    }

    fn wait_for_handler(&self) -> UnixStream {
        let (stream, _) = self.0.accept().unwrap();
        let mut place = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut place).unwrap();
        assert_eq!(place, "bad event\n");
        stream
    }
}

fn json_lines(output: &Output) -> Vec<Value> {
    output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn kill_kernel(kernel: Background) {
    let pid = Pid::from_raw(kernel.id().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    drop(kernel.finish());
}

#[test]
fn failed_delivery_becomes_retryable_dead_letter() {
    let home = misbehaving_home("fail", "");
    let barrier = HandlerBarrier::bind(&home);
    let kernel = start_kernel(&home);
    emit_event(&home, "work", &json!({"n": 1}));
    kernel.line_with("event.dead");
    let dead = json_lines(&home.skillhost(["events", "dead", "--json"]).success());
    assert_eq!(dead.len(), 1);
    let about = ["id", "subscriber", "attempts", "error"].map(|field| dead[0][field].clone());
    let id = dead[0]["id"].as_i64().unwrap();
    assert_eq!(
        about,
        [json!(id), json!("bad:work:custom"), json!(4), json!("event failed; try less")]
    );
    assert_eq!(dead[0]["event"]["payload"], json!({"n": 1}));
    let table = home.skillhost(["events", "dead"]).success().stdout;
    assert!(table.contains("bad:work:custom 4"), "{table}");

    set_behavior(&home, &json!({"do": "become", "place": "event", "act": "block"}));
    let retried = home.skillhost(["events", "retry", &id.to_string()]).success();
    assert_eq!(retried.stdout, format!("delivery {id} of work goes to bad:work:custom again\n"));
    drop(barrier.wait_for_handler());
    kernel.interrupt().success();
    let none = home.skillhost(["events", "dead"]).success();
    assert_eq!((none.stdout.as_str(), none.stderr.as_str()), ("", "note: no dead letters\n"));
    let none = home.skillhost(["events", "dead", "--json"]).success().json();
    assert_eq!(none, json!({"schema_version": 1, "dead": []}));
    let unknown = home.skillhost(["events", "retry", &id.to_string()]);
    let error = unknown.exits(3).stderr;
    assert!(error.starts_with(&format!("error: dead letter {id} not found\n")), "{error}");
}

#[test]
fn unacknowledged_event_is_redelivered() {
    let home = misbehaving_home("block", "");
    let barrier = HandlerBarrier::bind(&home);
    let kernel = start_kernel(&home);
    emit_event(&home, "work", &json!({"n": 1}));
    let blocked = barrier.wait_for_handler();
    kill_kernel(kernel);
    drop(blocked);
    let kernel = start_kernel(&home);
    drop(barrier.wait_for_handler());
    kernel.interrupt().success();
    let steps = std::fs::read_to_string(home.path("record")).unwrap();
    let handled = steps.lines().filter(|step| step.starts_with("bad event "));
    assert_eq!(handled.collect::<Vec<_>>(), [r#"bad event work {"n":1}"#; 2]);
    // All deliveries are acknowledged.
    start_kernel(&home).interrupt().success();
    let record = std::fs::read_to_string(home.path("record")).unwrap();
    assert_eq!(record.matches("bad event work").count(), 2);
}

#[test]
fn stored_event_is_delivered_later() {
    let home = misbehaving_home("fail", "");
    start_kernel(&home).interrupt().success();
    // No kernel runs, so the command uses its own, which only appends.
    emit_event(&home, "work", &json!({"n": 2}));
    let kernel = start_kernel(&home);
    let dead = kernel.line_with("event.dead");
    assert!(dead.contains("topic=work"), "{dead}");
    kernel.interrupt().success();
}

#[test]
fn notify_user_handler_prints_text() {
    let subscribes = "  instructions: You watch.\nevents:\n  subscribes:\n    \
                      - {topic: news, handler: notify_user, text: 'heard {{ payload.what }}'}\n";
    let home = misbehaving_home("fail", "")
        .manifest("watcher", &agent_manifest("watcher", subscribes))
        .trusted();
    let kernel = start_kernel(&home);
    emit_event(&home, "news.today", &json!({"what": "rain\u{1b}[2J"}));
    assert_eq!(kernel.line_with("heard"), "watcher heard rain[2J");
    kernel.interrupt().success();
}

#[test]
fn invoked_agent_keeps_correlation_id() {
    let mock = MockModel::with([
        Step::calls("bad", r#"{"do":"emit","topic":"looked","payload":{"ok":true}}"#),
        Step::text("I have looked."),
    ]);
    let subscribes = "  instructions: You look.\n  uses_tools: [bad]\nevents:\n  subscribes:\n    \
                      - {topic: news, handler: invoke_agent, prompt: 'Look: {{ payload.what }}'}\n";
    let home = misbehaving_home("fail", &mock.settings(Wire::Openai));
    let home = home.manifest("looker", &agent_manifest("looker", subscribes)).trusted();
    let kernel = start_kernel(&home);
    emit_event(&home, "news", &json!({"what": "the door"}));
    kernel.line_with("looked");
    kernel.interrupt().success();
    let requests = mock.requests();
    assert_eq!(requests[0].last_text(), "Look: the door");
    let events = json_lines(&home.skillhost(["events", "tail", "--json"]).success());
    let topics: Vec<_> =
        events.iter().map(|e| (e["topic"].as_str().unwrap(), &e["correlation_id"])).collect();
    let news = &events.iter().find(|event| event["topic"] == "news").unwrap()["id"];
    let root = json!(format!("event-{news}"));
    assert!(topics.contains(&("looked", &root)), "{topics:?}");
}

#[test]
fn events_are_filtered_and_followed() {
    let home = misbehaving_home("fail", "");
    let none = home.skillhost(["events", "tail"]).success();
    assert_eq!((none.stdout.as_str(), none.stderr.as_str()), ("", "note: there are no events\n"));
    assert!(!home.path("sandbox/data/kernel/events.db").exists());
    for (topic, n) in [("a.x", 1), ("b", 2), ("a.y", 3)] {
        emit_event(&home, topic, &json!({ "n": n }));
    }
    let lines = |args: &[&str]| -> Vec<String> {
        let output = home.skillhost(["events", "tail"].iter().chain(args)).success();
        // Times differ in each run.
        let short = |line: &str| line.split_whitespace().skip(3).collect::<Vec<_>>().join(" ");
        output.stdout.lines().map(short).collect()
    };
    assert_eq!(lines(&[]), ["bad a.x n=1", "bad b n=2", "bad a.y n=3"]);
    assert_eq!(lines(&["--topic", "a"]), ["bad a.x n=1", "bad a.y n=3"]);
    assert_eq!(lines(&["-n", "1"]), ["bad a.y n=3"]);
    let following = home.spawn(["events", "tail", "--follow", "--topic", "a"]);
    following.line_with("a.y");
    emit_event(&home, "b", &json!({"n": 4}));
    emit_event(&home, "a.z", &json!({"n": 5}));
    let next = following.line_with("bad");
    assert!(next.ends_with("bad a.z n=5"), "{next}");
    following.interrupt().success();
}
