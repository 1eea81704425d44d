//! Start and end of processes.

use std::time::Duration;

use serde_json::json;
use skillhost_handlers::SupervisionLimits;
use skillhost_payload::CallContext;

use crate::fixture::{LONG, SkillFixture, context, describe, wait_for};

/// A program that counts its calls, and one that waits for a file in the work directory.
const FILES: &[(&str, &str)] = &[
    ("count.mjs", "let calls = 0;\nexport default () => (calls += 1);"),
    (
        "wait.mjs",
        "import { existsSync, appendFileSync } from 'node:fs';\nlet open = 0;\nexport default async (args) => { open += 1; appendFileSync('calls', 'x'); while (!existsSync(args.file)) await new Promise((r) => setTimeout(r, 5)); const seen = open; open -= 1; return seen; };",
    ),
];

fn in_thread(thread: &str) -> CallContext {
    CallContext { session_id: thread.to_owned(), ..context() }
}

#[tokio::test]
async fn idle_process_is_stopped() {
    let limits =
        SupervisionLimits { idle: Duration::from_millis(50), ..SupervisionLimits::default() };
    let Some(skill) = SkillFixture::with_limits(FILES, limits) else { return };
    assert_eq!(skill.result("count.mjs", "{}").await, 1);
    wait_for(|| skill.supervisor.running_count() == 0).await;
    assert_eq!(skill.result("count.mjs", "{}").await, 1, "a new process");
    // Stops are not crashes.
    for _ in 0..4 {
        wait_for(|| skill.supervisor.running_count() == 0).await;
        assert_eq!(skill.result("count.mjs", "{}").await, 1);
    }
}

#[tokio::test]
async fn call_longer_than_idle_time_is_not_stopped() {
    let limits =
        SupervisionLimits { idle: Duration::from_millis(20), ..SupervisionLimits::default() };
    let Some(skill) = SkillFixture::with_limits(FILES, limits) else { return };
    let file = skill.work().join("go");
    let calling = skill.call("wait.mjs", r#"{"file": "go"}"#);
    let releasing = async {
        wait_for(|| skill.work().join("calls").exists()).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        std::fs::write(&file, "").unwrap();
    };
    let (called, ()) = tokio::join!(calling, releasing);
    assert_eq!(called.unwrap().result.result.get(), "1");
}

#[tokio::test]
async fn each_thread_has_own_process() {
    let Some(skill) = SkillFixture::create(FILES) else { return };
    for (thread, calls) in [("a", "1"), ("a", "2"), ("b", "1"), ("a", "3")] {
        let report = skill.call_in(in_thread(thread), "count.mjs", "{}", LONG).await.unwrap();
        assert_eq!(report.result.result.get(), calls, "{thread}");
    }
    assert_eq!(skill.supervisor.running_count(), 2);
}

#[tokio::test]
async fn changed_files_replace_the_process_after_its_call() {
    let Some(mut skill) = SkillFixture::create(FILES) else { return };
    assert_eq!(skill.result("count.mjs", "{}").await, 1);
    skill.tree = "sha256:2".to_owned();
    assert_eq!(skill.result("count.mjs", "{}").await, 1);
    wait_for(|| skill.supervisor.running_count() == 1).await;
    assert_eq!(skill.result("count.mjs", "{}").await, 2);
}

#[tokio::test]
async fn ninth_call_waits_for_another() {
    let Some(skill) = SkillFixture::create(FILES) else { return };
    let calls = (0..9).map(|_| skill.call("wait.mjs", r#"{"file": "go"}"#));
    let marks = || std::fs::read(skill.work().join("calls")).map_or(0, |calls| calls.len());
    let releasing = async {
        wait_for(|| marks() == 8).await;
        std::fs::write(skill.work().join("go"), "").unwrap();
    };
    let (called, ()) = tokio::join!(futures::future::join_all(calls), releasing);
    let seen = called.into_iter().map(|called| called.unwrap().result.result.get().to_owned());
    assert!(seen.max().unwrap().as_str() <= "8");
    assert_eq!(marks(), 9);
}

#[tokio::test]
async fn idle_process_makes_room() {
    let limits = SupervisionLimits { processes: 2, ..SupervisionLimits::default() };
    let Some(skill) = SkillFixture::with_limits(FILES, limits) else { return };
    for thread in ["a", "b", "c", "d"] {
        skill.call_in(in_thread(thread), "count.mjs", "{}", LONG).await.unwrap();
        wait_for(|| skill.supervisor.running_count() <= 2).await;
    }
    // Two calls that wait leave no room.
    let file = json!({ "file": "go" }).to_string();
    let one = skill.call_in(in_thread("a"), "wait.mjs", &file, LONG);
    let other = skill.call_in(in_thread("b"), "wait.mjs", &file, LONG);
    let third = async {
        let marks = || std::fs::read(skill.work().join("calls")).map_or(0, |calls| calls.len());
        wait_for(|| marks() == 2 && skill.supervisor.running_count() == 2).await;
        let refused = skill.call_in(in_thread("e"), "count.mjs", "{}", LONG).await;
        std::fs::write(skill.work().join("go"), "").unwrap();
        refused
    };
    let (one, other, third) = tokio::join!(one, other, third);
    assert!(one.is_ok() && other.is_ok(), "{one:?} {other:?}");
    let error = describe(&third.unwrap_err(), "count.mjs");
    assert_eq!(error, ("unavailable", "2 programs of skills are busy, the limit".to_owned()));
}

#[tokio::test]
async fn dropped_call_is_cancelled() {
    let Some(skill) = SkillFixture::create(&[(
        "abort.mjs",
        "let aborted = 0;\nexport default (args, ctx) => args.count ? aborted : new Promise((_, no) => ctx.signal.addEventListener('abort', () => { aborted += 1; no(new Error('aborted')); }));",
    )]) else {
        return;
    };
    assert_eq!(skill.result("abort.mjs", r#"{"count": 1}"#).await, 0);
    let call = skill.call("abort.mjs", "{}");
    assert!(tokio::time::timeout(Duration::from_millis(300), call).await.is_err());
    wait_for_abort(&skill).await;
    assert_eq!(skill.supervisor.running_count(), 1);
}

async fn wait_for_abort(skill: &SkillFixture) {
    while skill.result("abort.mjs", r#"{"count": 1}"#).await != 1 {}
}

#[tokio::test]
async fn dropped_supervisor_ends_processes() {
    let Some(skill) = SkillFixture::create(FILES) else { return };
    skill.call("count.mjs", "{}").await.unwrap();
    let launchers = || {
        let own = std::process::id();
        let children = format!("/proc/{own}/task");
        let tasks = std::fs::read_dir(children).unwrap();
        let lists = tasks
            .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("children")).ok());
        lists.map(|list| list.split_whitespace().count()).sum::<usize>()
    };
    assert!(launchers() > 0);
    drop(skill);
    wait_for(|| launchers() == 0).await;
}
