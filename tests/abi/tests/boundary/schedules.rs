//! Schedules of real libraries: permissions, reports, cancellation.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use skillhost_control::ScheduleRunOutcome;
use skillhost_core::KernelLimits;
use skillhost_events::ScheduleRun;
use skillhost_kernel::Kernel;
use skillhost_payload::{ErrorKind, Event};
use test_support::TestHome;
use tokio::sync::broadcast::Receiver;

use crate::fixture::{Gate, KernelFixture, home_with, misbehaving, next, patient};

/// An extension `a` with one schedule.
fn scheduled(what: &str, rest: &str) -> TestHome {
    home_with("a", &format!("schedules: [{{name: x, cron: 0 0 1 1 *, {what}}}]\n{rest}"))
}

async fn run(fixture: &KernelFixture) -> Result<ScheduleRunOutcome, (ErrorKind, String)> {
    fixture.kernel.run_schedule("a/x").await.map_err(|error| (error.kind(), error.to_string()))
}

/// The payload of the next event, without times.
async fn next_payload(events: &mut Receiver<Arc<Event>>, topic: &str) -> Value {
    let event = next(events, topic).await;
    assert_eq!(event.source, "kernel");
    let mut payload: Value = serde_json::from_str(event.payload.get()).expect("it is JSON");
    for time in ["due", "ms", "last"] {
        payload.as_object_mut().expect("it is an object").remove(time);
    }
    payload
}

async fn last_error(kernel: &Kernel) -> Option<String> {
    kernel.list_schedules().await.remove(0).last.and_then(|last| last.error)
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduled_task_is_reported() {
    let fixture = KernelFixture::boot(scheduled("task: sweep", "")).await;
    let mut events = fixture.kernel.events().subscribe_all();
    let ran = run(&fixture).await.unwrap();
    assert_eq!((&*ran.schedule, ran.result.as_deref()), ("a/x", Some("sweep for \"operator\"")));
    let event = next_payload(&mut events, "schedule.ran").await;
    assert_eq!(event, json!({"schedule": "a/x", "result": "sweep for \"operator\""}));
    let listed = fixture.kernel.list_schedules().await.remove(0);
    assert_eq!((&*listed.action, &*listed.timezone, listed.running), ("task sweep", "UTC", false));
    assert!(listed.next.ends_with("-01-01 00:00 UTC"), "{}", listed.next);
    assert!(listed.last.is_some_and(|last| last.error.is_none() && last.took_ms.is_some()));

    let missing = fixture.kernel.run_schedule("a/y").await.unwrap_err();
    assert_eq!((missing.kind(), &*missing.to_string()), {
        (ErrorKind::NotFound, "schedule `a/y` not found")
    });
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_task_is_reported_and_contained() {
    for (act, kind, message) in [
        ("fail", ErrorKind::Failed, "task failed"),
        ("panic", ErrorKind::Panicked, "task panicked"),
    ] {
        let rest = format!("config: {{parts: {{task: {act}}}}}");
        let fixture = KernelFixture::boot(scheduled("task: sweep", &rest)).await;
        let mut events = fixture.kernel.events().subscribe_all();
        let (found, said) = run(&fixture).await.unwrap_err();
        assert_eq!(found, kind);
        assert!(said.contains(message), "{said}");
        let event = next_payload(&mut events, "schedule.failed").await;
        assert_eq!((&event["schedule"], &event["kind"]), (&json!("a/x"), &json!(kind.as_str())));
        assert_eq!(last_error(&fixture.kernel).await.as_deref(), event["error"].as_str());
        assert_eq!(fixture.build("a").await, fixture.build("a").await);
        fixture.kernel.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduled_tool_cannot_require_approval() {
    let say = "tool: a, arguments: {do: say, text: 'first\nsecond'}".replace('\n', " \\n");
    let say = say.replace('\'', "\"").replace(" \\n", "\\n");
    let fixture = KernelFixture::boot(scheduled(&say, "")).await;
    assert_eq!(run(&fixture).await.unwrap().result.as_deref(), Some("first"));
    fixture.kernel.shutdown().await;
    for approval in ["unless_granted", "always"] {
        let fixture =
            KernelFixture::boot(scheduled(&say, &format!("config: {{approval: {approval}}}")))
                .await;
        let denied =
            "tool `a` requires approval, but a schedule has no approval channel".to_owned();
        assert_eq!(run(&fixture).await.unwrap_err(), (ErrorKind::Denied, denied));
        fixture.kernel.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_scheduled_call_has_no_approval() {
    let call = "tool: a, arguments: {do: call, tool: b, arguments: {do: build}}";
    let home = misbehaving(scheduled(call, ""), "b", "config: {approval: unless_granted}");
    let fixture = KernelFixture::boot(home).await;
    let (kind, message) = run(&fixture).await.unwrap_err();
    assert_eq!(kind, ErrorKind::Denied);
    assert!(
        message.contains("`b` requires approval, but no approval channel is available"),
        "{message}"
    );
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schedule_requires_own_tool() {
    let home = misbehaving(scheduled("tool: b, arguments: {do: build}", ""), "b", "");
    let fixture = KernelFixture::boot(home).await;
    let note = "schedule `a/x` names tool `b`, which `a` does not have";
    assert!(fixture.kernel.report().notes.iter().any(|found| found == note));
    let refused = "`b` is not a tool of `a`".to_owned();
    assert_eq!(run(&fixture).await.unwrap_err(), (ErrorKind::NotFound, refused));
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn overdue_task_is_cancelled() {
    let rest = "config: {parts: {task: hang}}";
    let home = scheduled("task: sweep, timeout_ms: 50", rest);
    let gate = Gate::open(&home);
    let fixture = KernelFixture::boot(home).await;
    let (ran, held) = tokio::join!(run(&fixture), async {
        let held = gate.reached("a task").await;
        held.given_up().await;
    });
    let ((), late) = (held, "timed out after 50 ms".to_owned());
    assert_eq!(ran.unwrap_err(), (ErrorKind::Timeout, late));
    fixture.kernel.shutdown().await;

    let home = scheduled("task: sweep", rest);
    let gate = Gate::open(&home);
    let fixture = KernelFixture::boot(home).await;
    let kernel = fixture.kernel.clone();
    let running = tokio::spawn(async move { kernel.run_schedule("a/x").await });
    let held = gate.reached("a task").await;
    let twice = "`a/x` is already running".to_owned();
    assert_eq!(run(&fixture).await.unwrap_err(), (ErrorKind::Conflict, twice));
    running.abort();
    held.given_up().await;
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missed_schedules_are_reported_at_start() {
    let home = home_with("a", "schedules: [{name: x, cron: 0 0 * * *, task: sweep}]");
    let fixture = KernelFixture::boot(home).await;
    let mut events = fixture.kernel.events().subscribe_all();
    let day = 86_400_000;
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    // Noon three days ago: three midnights since.
    let due_ms = now - now % day - 3 * day + day / 2;
    let run = ScheduleRun { due_ms, started_ms: due_ms, ended_ms: Some(due_ms), error: None };
    fixture.kernel.events().journal().record_run("a/x", run).await.unwrap();
    fixture.kernel.start_schedules();
    let event = next(&mut events, "schedule.missed").await;
    let payload: Value = serde_json::from_str(event.payload.get()).unwrap();
    // Just after midnight the last one is late instead of missed, and runs.
    let late = now % day <= 60_000;
    assert_eq!(payload["missed"], json!(if late { 2 } else { 3 }), "{payload}");
    let kept = fixture.kernel.events().journal().last_run("a/x").await.unwrap().unwrap();
    assert!(kept.due_ms > due_ms, "{kept:?}");
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_cancels_endless_tasks() {
    let home = scheduled("task: sweep", "config: {parts: {task: hang}}");
    let gate = Gate::open(&home);
    let limits = KernelLimits { drain: Duration::from_millis(50), ..patient() };
    let fixture = KernelFixture::boot_with(home, limits, true).await;
    fixture.kernel.start_schedules();
    let kernel = fixture.kernel.clone();
    let running = tokio::spawn(async move { kernel.run_schedule("a/x").await });
    let held = gate.reached("a task").await;
    let (ended, ()) = tokio::join!(running, fixture.kernel.shutdown());
    let error = ended.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    held.given_up().await;
}
