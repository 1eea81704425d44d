//! Tests of scheduled jobs: listed, run on demand, missed without a kernel.

use std::time::UNIX_EPOCH;

use mock_model::{MockModel, Step};
use serde_json::json;
use skillhost_events::{Clock, Journal, ScheduleRun};
use test_support::TestHome;

use crate::agents_scene::{agents_home, transcript_lines};
use crate::fixtures::{agent_manifest, home, shipped_manifest, start_kernel};

const HOUR: u64 = 3_600_000;

fn now_ms() -> u64 {
    u64::try_from(UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap()
}

/// Returns a daily pattern that is due in twelve hours, so that no job starts during a test.
fn half_day_cron() -> String {
    format!("0 {} * * *", (now_ms() / HOUR + 12) % 24)
}

/// Creates a home whose echo has a daily job.
fn daily_job_home(rest: &str) -> TestHome {
    let cron = half_day_cron();
    let schedule = format!("{{name: hello, cron: '{cron}', tool: echo, arguments: {{text: Hi}}}}");
    let manifest = format!("{}schedules: [{schedule}]\n{rest}", shipped_manifest("echo"));
    home().manifest("echo", &manifest)
}

#[test]
fn schedules_are_listed_and_run() {
    let home = daily_job_home("");
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
fn missed_jobs_are_reported_once() {
    let home = daily_job_home("");
    let journal = Journal::new(home.path("sandbox/data/kernel/events.db"), Clock::system());
    let due_ms = now_ms() - 72 * HOUR;
    let run = ScheduleRun { due_ms, started_ms: due_ms, ended_ms: Some(due_ms), error: None };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        journal.record_run("echo/hello", run).await.unwrap();
        journal.close().await;
    });

    let kernel = start_kernel(&home);
    let missed = kernel.line_with("schedule.missed echo/hello");
    assert!(missed.contains("missed=3"), "{missed}");
    // The running kernel executes the job for the command and publishes its event.
    home.skillhost(["schedule", "run", "echo/hello"]).success();
    kernel.line_with("schedule.ran echo/hello");
    let listed = home.skillhost(["--json", "schedule", "list"]).success().json();
    assert_eq!(listed["running"], json!(true));
    kernel.interrupt().success();

    let kernel = start_kernel(&home);
    let output = kernel.interrupt().success();
    assert!(!output.stdout.contains("schedule.missed"), "it is told once: {output}");
}

#[test]
fn scheduled_agent_has_no_approval_channel() {
    let mock = MockModel::with([
        Step::calls("delete_file", r#"{"path":"skills/code-review/SKILL.md"}"#),
        Step::text("I looked around.\nNothing is new."),
    ]);
    let worker = agent_manifest("daily", "  instructions: You look.\n  uses_tools: [core_tools]\n");
    let schedule =
        format!("schedules: [{{name: look, cron: '{}', prompt: Look.}}]\n", half_day_cron());
    let home = agents_home(&mock).manifest("daily", &format!("{worker}{schedule}"));
    let ran = home.skillhost(["schedule", "run", "daily/look"]).success();
    assert!(ran.stdout.trim_end().ends_with(": I looked around."), "{ran}");
    assert_eq!(mock.requests()[0].messages()[0].text, "Look.");
    let answers = transcript_lines(&home, "answer");
    assert_eq!(answers[0]["is_error"], json!(true), "{answers:?}");
    assert!(home.path("sandbox/skills/code-review/SKILL.md").exists());
}

#[test]
fn impossible_schedule_rejects_manifest() {
    let bad = |cron: &str| {
        let manifest = format!(
            "id: bad\nname: Bad\nentrypoint: bad\nschedules: [{{name: a, cron: '{cron}', task: t}}]\n"
        );
        let home = home().manifest("bad", &manifest);
        home.skillhost(["ext", "doctor"]).exits(1).stdout
    };
    assert!(bad("* * * * * *").contains("has seconds or years; a pattern has five fields"));
    assert!(bad("0 0 31 4 *").contains("never fires: the day exists in no year"));
    assert!(bad("61 * * * *").contains("`61` is not a valid minute; write 0-59"));
}
