//! Durations of the console: a token from the model to a client, and pages with 100 rows. The
//! figures are printed; the limits are those of a debug build on a busy machine.

use std::time::{Duration, Instant};

use mock_model::{MockModel, Step};
use serde_json::json;
use skillhost_tasks::{NewTask, QuestionKind, TaskKind, TaskOutcome};

use crate::agents_scene::{ask_agent, last_thread};
use crate::console_client::{ConsoleClient, EventLines};
use crate::console_scene::ConsoleScene;
use crate::fixtures::start_kernel;

/// The number of measured replies, and of measured readings of each page.
const RUNS: usize = 100;
const ROWS: usize = 100;
/// A multiple of the intended 50 ms and 10 ms, which an optimized build has to meet.
const MAX_LATENCY: Duration = Duration::from_millis(500);
const MAX_PAGE_TIME: Duration = Duration::from_millis(500);

/// Prints the median and the 99th percentile; returns the median.
#[expect(clippy::print_stderr, reason = "the figures are the result")]
fn print_figures(name: &str, mut durations: Vec<Duration>) -> Duration {
    durations.sort_unstable();
    let (median, high) = (durations[durations.len() / 2], durations[durations.len() * 99 / 100]);
    eprintln!("{name}: median {median:.1?}, 99 % {high:.1?}");
    median
}

/// Reads events until one whose data has a text.
fn wait_for_event(events: &mut EventLines, text: &str) {
    while !events.next_data().contains(text) {}
}

#[test]
fn token_reaches_client_soon() {
    let mock = MockModel::with([Step::text("Hello.")]);
    let scene = ConsoleScene::new(&mock);
    let home = &scene.mailbox.home;
    let _kernel = start_kernel(home);
    ask_agent(home, "worker", "Hi").success();
    let thread = last_thread(home);
    let client = ConsoleClient::log_in(home);
    let mut events = client.stream(&format!("/api/threads/{thread}/events"));
    let path = format!("/api/threads/{thread}/messages");
    let mut durations = Vec::new();
    for number in 0..RUNS {
        mock.push(Step::text("One two three four.").held());
        let message = json!({ "message_id": format!("m{number}"), "text": "Count" });
        client.post_json(&path, &message.to_string()).expect(202);
        // The model has the request and sends nothing yet.
        let _ = mock.wait_for(number + 2);
        let began = Instant::now();
        mock.release();
        wait_for_event(&mut events, "TEXT_MESSAGE_CONTENT");
        durations.push(began.elapsed());
        wait_for_event(&mut events, "RUN_FINISHED");
    }
    let median = print_figures("from the model to a client", durations);
    assert!(median < MAX_LATENCY, "{median:?}");
}

#[test]
fn full_pages_are_drawn_soon() {
    let mock = MockModel::new();
    let scene = ConsoleScene::new(&mock);
    for number in 0..ROWS {
        let outcome =
            TaskOutcome::Completed { text: "done".into(), structured: None, is_error: false };
        let new = NewTask::new(TaskKind::Tool, "echo", json!({ "text": number }).to_string());
        scene.end_task(NewTask { title: format!("Task {number}"), ..new }, &[], outcome);
        scene.ask(QuestionKind::Choice, &format!("Question {number}"), &json!({}), &[]);
        scene.publish("scene.text", &json!({ "number": number }));
        scene.add_person(&number.to_string(), &format!("Person {number}"), "guest");
    }
    let _kernel = start_kernel(&scene.mailbox.home);
    let client = ConsoleClient::log_in(&scene.mailbox.home);
    let pages = [
        ("/tasks", "data-label=\"Task\""),
        ("/inbox", "href=\"/inbox/"),
        ("/events", "<details"),
        ("/channels", "data-label=\"Person\""),
    ];
    for (path, row) in pages {
        let rows = client.get(path).expect(200).body.matches(row).count();
        assert!(rows >= ROWS, "{path}: {rows}");
        let measure = |_| {
            let began = Instant::now();
            client.get(path).expect(200);
            began.elapsed()
        };
        let median = print_figures(path, (0..RUNS).map(measure).collect());
        assert!(median < MAX_PAGE_TIME, "{path}: {median:?}");
    }
}
