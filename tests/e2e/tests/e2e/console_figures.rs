//! Figures of the console: pages with 100 rows, a token from the model to a client, and the CPU time
//! and the memory of the server.
//!
//! `cargo xtask bench` names a file in `CONSOLE_FIGURES`, into which they are written. Without it
//! they are printed, and the limits are those of a debug build on a busy machine.

use std::fs;
use std::time::{Duration, Instant};

use mock_model::{MockModel, Step};
use serde_json::{Map, Value, json};
use skillhost_tasks::{NewTask, QuestionKind, TaskKind, TaskOutcome};
use test_support::Background;

use crate::agents_scene::{ask_agent, last_thread};
use crate::console_client::{ConsoleClient, EventLines, value_after};
use crate::console_scene::ConsoleScene;
use crate::fixtures::start_kernel;

/// The file into which the figures are written.
const FIGURES: &str = "CONSOLE_FIGURES";
const ROWS: usize = 100;
/// A multiple of the intended 50 ms and 10 ms, which an optimized build has to meet.
const MAX_LATENCY_MS: f64 = 500.0;
const MAX_PAGE_MS: f64 = 500.0;
/// The tick of `/proc/PID/stat`, which is the same on every common architecture of Linux.
const TICK_MS: f64 = 10.0;

/// The pages, each with a text that every row of it has.
const PAGES: [(&str, &str); 4] = [
    ("/tasks", "data-label=\"Task\""),
    ("/inbox", "href=\"/inbox/"),
    ("/events", "<details"),
    ("/channels", "data-label=\"Person\""),
];

/// Creates a home with as many rows on each of the pages.
fn full_scene(mock: &MockModel) -> ConsoleScene {
    let scene = ConsoleScene::new(mock);
    for number in 0..ROWS {
        let outcome =
            TaskOutcome::Completed { text: "done".into(), structured: None, is_error: false };
        let new = NewTask::new(TaskKind::Tool, "echo", json!({ "text": number }).to_string());
        scene.end_task(NewTask { title: format!("Task {number}"), ..new }, &[], outcome);
        scene.ask(QuestionKind::Choice, &format!("Question {number}"), &json!({}), &[]);
        scene.publish("scene.text", &json!({ "number": number }));
        scene.add_person(&number.to_string(), &format!("Person {number}"), "guest");
    }
    scene
}

/// Returns the CPU time that a process has used, in milliseconds.
fn cpu_ms(kernel: &Background) -> f64 {
    let text = fs::read_to_string(format!("/proc/{}/stat", kernel.id())).unwrap();
    // The name of the program, in parentheses, may have spaces.
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = fields[11..13].iter().map(|field| field.parse::<f64>().unwrap()).sum();
    ticks * TICK_MS
}

/// Returns the peak of the resident memory of a process, in MiB.
fn peak_mib(kernel: &Background) -> f64 {
    let text = fs::read_to_string(format!("/proc/{}/status", kernel.id())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1024.0
}

/// Returns the number of measured replies, and of measured readings of each page.
fn runs() -> usize {
    // A test of the limits alone needs no exact percentile.
    if std::env::var_os(FIGURES).is_some() { 200 } else { 40 }
}

/// Measures a step several times: the median and the 99th percentile of the durations that it
/// returns, and the CPU time of the server for one.
fn measure_step(kernel: &Background, mut step: impl FnMut(usize) -> Duration) -> Value {
    let (began, runs) = (cpu_ms(kernel), runs());
    let mut durations: Vec<Duration> = (0..runs).map(&mut step).collect();
    let cpu_ms = (cpu_ms(kernel) - began) / runs as f64;
    durations.sort_unstable();
    let [p50_ms, p99_ms] =
        [runs / 2, runs * 99 / 100].map(|at| durations[at].as_secs_f64() * 1_000.0);
    json!({ "p50_ms": p50_ms, "p99_ms": p99_ms, "cpu_ms": cpu_ms })
}

fn measure_page(kernel: &Background, client: &ConsoleClient, path: &str) -> Value {
    measure_step(kernel, |_| {
        let began = Instant::now();
        client.get(path).expect(200);
        began.elapsed()
    })
}

/// Reads events until one whose data has a text.
fn wait_for_event(events: &mut EventLines, text: &str) {
    while !events.next_data().contains(text) {}
}

/// Measures the time from the release of a reply in the model to its first token at the client.
fn measure_latency(
    kernel: &Background,
    client: &ConsoleClient,
    mock: &MockModel,
    thread: &str,
) -> Value {
    let mut events = client.stream(&format!("/api/threads/{thread}/events"));
    let path = format!("/api/threads/{thread}/messages");
    let asked = mock.requests().len();
    measure_step(kernel, |number| {
        mock.push(Step::text("One two three four.").held());
        let message = json!({ "message_id": format!("m{number}"), "text": "Count" });
        client.post_json(&path, &message.to_string()).expect(202);
        // The model has the request and sends nothing yet.
        let _ = mock.wait_for(asked + number + 1);
        let began = Instant::now();
        mock.release();
        wait_for_event(&mut events, "TEXT_MESSAGE_CONTENT");
        let latency = began.elapsed();
        wait_for_event(&mut events, "RUN_FINISHED");
        latency
    })
}

#[cfg(target_os = "linux")]
#[test]
#[expect(clippy::print_stderr, reason = "the figures are the result")]
fn console_figures_stay_below_limits() {
    let mock = MockModel::with([Step::text("Hello.")]);
    let scene = full_scene(&mock);
    let home = &scene.mailbox.home;
    let kernel = start_kernel(home);
    ask_agent(home, "worker", "Hi").success();
    let client = ConsoleClient::log_in(home);
    let overview = client.get("/").expect(200).body;
    let stylesheet = value_after(&overview, "rel=\"stylesheet\" href=\"");
    let mut figures = Map::new();
    // The floor: a response of the same server that reads no store.
    figures.insert("stylesheet".into(), measure_page(&kernel, &client, &stylesheet));
    for (path, row) in PAGES {
        let rows = client.get(path).expect(200).body.matches(row).count();
        assert!(rows >= ROWS, "{path}: {rows}");
        figures.insert(path.into(), measure_page(&kernel, &client, path));
    }
    let latency = measure_latency(&kernel, &client, &mock, &last_thread(home));
    figures.insert("token".into(), latency);
    for (name, measured) in &figures {
        eprintln!("{name}: {measured}");
        let limit = if name == "token" { MAX_LATENCY_MS } else { MAX_PAGE_MS };
        assert!(measured["p50_ms"].as_f64().unwrap() < limit, "{name}: {measured}");
    }
    figures.insert("server".into(), json!({ "peak_mib": peak_mib(&kernel) }));
    if let Some(file) = std::env::var_os(FIGURES) {
        fs::write(file, Value::Object(figures).to_string()).unwrap();
    }
}
