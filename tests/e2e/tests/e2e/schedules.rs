//! What happens at certain times: listed, run by hand, missed while nothing ran.

use std::time::UNIX_EPOCH;

use mock_model::{MockModel, Step};
use serde_json::json;
use skillhost_events::{Clock, Journal, ScheduleRun};
use test_support::TestHome;

use crate::agents_scene::{agents, transcripts};
use crate::scene::{agent, home, running, shipped};

const HOUR: u64 = 3_600_000;

fn now() -> u64 {
    u64::try_from(UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap()
}

/// A daily pattern that is half a day away, so that no test is there when it is due.
fn far_away() -> String {
    format!("0 {} * * *", (now() / HOUR + 12) % 24)
}

/// A home whose echo says hello every day.
fn daily(rest: &str) -> TestHome {
    let cron = far_away();
    let schedule = format!("{{name: hello, cron: '{cron}', tool: echo, arguments: {{text: Hi}}}}");
    let manifest = format!("{}schedules: [{schedule}]\n{rest}", shipped("echo"));
    home().manifest("echo", &manifest)
}

#[test]
fn schedules_are_listed_and_run_by_hand() {
    let home = daily("");
    let listed = home.skillhost(["schedule", "list"]).success();
    let row = listed.stdout.lines().find(|line| line.contains("echo/hello")).unwrap().to_owned();
    assert!(row.contains("tool echo") && row.contains("never"), "{listed}");
    assert!(listed.stderr.contains("schedules wait for `skillhost run`"), "{listed}");
    assert!(!home.path("sandbox/data/kernel/events.db").exists(), "a list writes nothing");

    let ran = home.skillhost(["schedule", "run", "echo/hello"]).success();
    assert!(ran.stdout.starts_with("echo/hello ran in ") && ran.stdout.contains("Hi"), "{ran}");
    let listed = home.skillhost(["--json", "schedule", "list"]).success().json();
    assert_eq!(listed["running"], json!(false));
    let schedule = &listed["schedules"][0];
    assert_eq!((&schedule["id"], &schedule["timezone"]), (&json!("echo/hello"), &json!("UTC")));
    assert_eq!(schedule["last"]["error"], json!(null));
    let missing = home.skillhost(["schedule", "run", "echo/hallo"]).exits(3);
    assert!(missing.stderr.contains("echo/hello"), "{missing}");
}

#[test]
fn what_was_missed_is_told_at_the_start_and_not_made_up() {
    let home = daily("");
    let journal = Journal::new(home.path("sandbox/data/kernel/events.db"), Clock::system());
    let due_ms = now() - 72 * HOUR;
    let run = ScheduleRun { due_ms, started_ms: due_ms, ended_ms: Some(due_ms), error: None };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        journal.record_run("echo/hello", run).await.unwrap();
        journal.close().await;
    });

    let kernel = running(&home);
    let missed = kernel.line_with("schedule.missed echo/hello");
    assert!(missed.contains("missed=3"), "{missed}");
    // The running kernel runs it for whoever asks, and tells of it.
    home.skillhost(["schedule", "run", "echo/hello"]).success();
    kernel.line_with("schedule.ran echo/hello");
    let listed = home.skillhost(["--json", "schedule", "list"]).success().json();
    assert_eq!(listed["running"], json!(true));
    kernel.interrupt().success();

    let kernel = running(&home);
    let output = kernel.interrupt().success();
    assert!(!output.stdout.contains("schedule.missed"), "it is told once: {output}");
}

#[test]
fn an_agent_does_what_it_is_scheduled_for_and_can_ask_nobody() {
    let mock = MockModel::with([
        Step::calls("delete_file", r#"{"path":"skills/code-review/SKILL.md"}"#),
        Step::text("I looked around.\nNothing is new."),
    ]);
    let worker = agent("daily", "  instructions: You look.\n  uses_tools: [core_tools]\n");
    let schedule = format!("schedules: [{{name: look, cron: '{}', prompt: Look.}}]\n", far_away());
    let home = agents(&mock).manifest("daily", &format!("{worker}{schedule}"));
    let ran = home.skillhost(["schedule", "run", "daily/look"]).success();
    assert!(ran.stdout.trim_end().ends_with(": I looked around."), "{ran}");
    assert_eq!(mock.requests()[0].messages()[0].text, "Look.");
    let answers = transcripts(&home, "answer");
    assert_eq!(answers[0]["is_error"], json!(true), "{answers:?}");
    assert!(home.path("sandbox/skills/code-review/SKILL.md").exists());
}

#[test]
fn a_schedule_that_cannot_be_is_an_error_of_the_manifest() {
    let bad = |cron: &str| {
        let manifest = format!(
            "id: bad\nname: Bad\nentrypoint: bad\nschedules: [{{name: a, cron: '{cron}', task: t}}]\n"
        );
        let home = home().manifest("bad", &manifest);
        home.skillhost(["ext", "doctor"]).exits(1).stdout
    };
    assert!(bad("* * * * * *").contains("has seconds or years; a pattern has five fields"));
    assert!(bad("0 0 31 4 *").contains("never fires: there is no such day in any year"));
    assert!(bad("61 * * * *").contains("`61` is no minute; write 0-59"));
}
