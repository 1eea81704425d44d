//! Events that manifests subscribe: handling, retries, dead letters.

use std::time::Duration;

use serde_json::{Value, json};
use skillhost_core::KernelLimits;
use skillhost_events::{Journal, TailQuery, topic};
use skillhost_home::{Home, HomeSource};
use skillhost_payload::ErrorKind;

use crate::rig::{Gate, Rig, SOON, home_with, misbehaving, next, patient};

const CUSTOM: &str = "events: {subscribes: [{topic: work, handler: custom}]}\n";

impl Rig {
    /// Returns the recorded steps about events.
    fn handled(&self) -> Vec<String> {
        self.record().into_iter().filter(|step| step.contains(" event ")).collect()
    }

    async fn emit(&self, topic: &str, payload: Value) {
        self.done("a", json!({"do": "emit", "topic": topic, "payload": payload})).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_handler_is_dead_lettered() {
    let home = home_with("a", &format!("{CUSTOM}config: {{parts: {{event: fail}}}}"));
    let gate = Gate::open(&home);
    let rig = Rig::boot(home).await;
    rig.kernel.start_event_delivery().await.unwrap();
    let mut events = rig.kernel.events().subscribe_all();
    rig.emit("work", json!({"n": 1})).await;
    let dead = next(&mut events, topic::EVENT_DEAD).await;
    let payload: Value = serde_json::from_str(dead.payload.get()).unwrap();
    assert_eq!(
        payload,
        json!({"delivery": 1, "subscriber": "a:work:custom", "event": 1, "topic": "work",
               "attempts": 4, "error": "event failed"})
    );
    assert_eq!(dead.correlation_id.as_deref(), Some("event-1"));
    assert_eq!(rig.handled(), [r#"a event work {"n":1}"#; 4]);

    rig.done("a", json!({"do": "become", "place": "event", "act": "block"})).await;
    // As another process does.
    let theirs = Journal::in_directory(&rig.kernel.home().data_dir("kernel"));
    let letters = theirs.dead_letters().await.unwrap();
    assert_eq!(letters.iter().map(|letter| letter.id).collect::<Vec<_>>(), [1]);
    theirs.retry_dead_letter(1).await.unwrap();
    drop(gate.reached("a event").await);
    rig.kernel.shutdown().await;
    assert_eq!(rig.handled().len(), 5);
    assert_eq!(theirs.dead_letters().await.unwrap().len(), 0);
}

/// Makes a statement about deliveries fail, like a full disk, until the returned closure is run.
fn fault(rig: &Rig, statement: &str) -> impl FnOnce() + use<> {
    let journal = rig.home.path("sandbox/data/kernel/events.db");
    let trigger = format!(
        "CREATE TRIGGER fault BEFORE {statement} ON deliveries BEGIN SELECT RAISE(ABORT, 'no'); END"
    );
    let run = |statement: &str, journal: &std::path::Path| {
        let journal = rusqlite::Connection::open(journal).expect("a journal");
        journal.execute_batch(statement).expect("a journal that can be written");
    };
    run(&trigger, &journal);
    move || run("DROP TRIGGER fault", &journal)
}

/// Waits until the kernel reports the state of its delivery.
async fn until_delivery_fails(rig: &Rig, fails: bool) {
    let minute = Duration::from_secs(60);
    let waiting = async {
        while rig.kernel.delivery_problem().is_some() != fails {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(minute, waiting).await.expect("the kernel looks twice a second");
}

#[tokio::test(flavor = "multi_thread")]
async fn unrecorded_outcome_is_recorded_later() {
    let rig = Rig::boot(home_with("a", CUSTOM)).await;
    rig.kernel.start_event_delivery().await.unwrap();
    let mut events = rig.kernel.events().subscribe_all();
    let repair = fault(&rig, "DELETE");
    rig.emit("work", json!({"then": "first"})).await;
    next(&mut events, "first").await;
    rig.emit("work", json!({"then": "second"})).await;
    until_delivery_fails(&rig, true).await;
    repair();
    // Without a restart, and the first event is not handled again.
    next(&mut events, "second").await;
    until_delivery_fails(&rig, false).await;
    let expected = [r#"a event work {"then":"first"}"#, r#"a event work {"then":"second"}"#];
    assert_eq!(rig.handled(), expected);
    rig.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_claim_is_repeated() {
    let rig = Rig::boot(home_with("a", CUSTOM)).await;
    rig.kernel.start_event_delivery().await.unwrap();
    let mut events = rig.kernel.events().subscribe_all();
    let repair = fault(&rig, "UPDATE");
    rig.emit("work", json!({"then": "late"})).await;
    until_delivery_fails(&rig, true).await;
    repair();
    next(&mut events, "late").await;
    assert_eq!(rig.handled().len(), 1);
    rig.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn delivery_starts_after_journal_creation() {
    let home = home_with("a", CUSTOM);
    // A directory in place of the file has the effect of a full disk.
    let obstacle = home.path("sandbox/data/kernel/events.db.lock");
    std::fs::create_dir_all(&obstacle).unwrap();
    let rig = Rig::boot(home).await;
    rig.kernel.start_event_delivery().await.unwrap();
    let problem = rig.kernel.delivery_problem().expect("nothing can be delivered");
    assert_eq!(problem.kind, ErrorKind::Io);
    std::fs::remove_dir(&obstacle).unwrap();
    until_delivery_fails(&rig, false).await;
    let mut events = rig.kernel.events().subscribe_all();
    rig.emit("work", json!({"then": "delivered"})).await;
    next(&mut events, "delivered").await;
    rig.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_or_panicking_handler_fails() {
    let rest = "events: {subscribes: [{topic: work, handler: custom, timeout_ms: 20}]}\n";
    let home = home_with("a", &format!("{rest}config: {{parts: {{event: hang}}}}"));
    let home = misbehaving(home, "b", &format!("{CUSTOM}config: {{parts: {{event: panic}}}}"));
    let _gate = Gate::open(&home);
    let rig = Rig::boot(home).await;
    rig.kernel.start_event_delivery().await.unwrap();
    let mut events = rig.kernel.events().subscribe_all();
    rig.emit("work", json!({})).await;
    let mut errors = Vec::new();
    for _ in 0..2 {
        let dead = next(&mut events, topic::EVENT_DEAD).await;
        let payload: Value = serde_json::from_str(dead.payload.get()).unwrap();
        errors.push(payload["error"].as_str().unwrap().to_owned());
    }
    errors.sort();
    assert_eq!(
        errors,
        ["event handler timed out after 20 ms", "the extension panicked: event panicked"]
    );
    rig.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn handler_events_keep_correlation() {
    let rig = Rig::boot(home_with("a", CUSTOM)).await;
    rig.kernel.start_event_delivery().await.unwrap();
    let mut events = rig.kernel.events().subscribe_all();
    rig.emit("work.now", json!({"then": "play"})).await;
    let play = next(&mut events, "play").await;
    assert_eq!((play.id, play.payload.get()), (2, r#"{"of":1}"#));
    assert_eq!(play.correlation_id.as_deref(), Some("event-1"));
    rig.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_delivery_resumes_after_start() {
    let home = home_with("a", &format!("{CUSTOM}config: {{parts: {{event: hang}}}}"));
    let gate = Gate::open(&home);
    let limits = KernelLimits { drain: Duration::from_millis(1), ..patient() };
    let rig = Rig::boot_with(home, limits, true).await;
    rig.kernel.start_event_delivery().await.unwrap();
    rig.emit("work", json!({})).await;
    let held = gate.reached("a event").await;
    rig.kernel.shutdown().await;
    held.given_up().await;

    let rig = Rig::boot_with(rig.home, KernelLimits { drain: SOON, ..patient() }, true).await;
    rig.done("a", json!({"do": "become", "place": "event", "act": "block"})).await;
    rig.kernel.start_event_delivery().await.unwrap();
    drop(gate.reached("a event").await);
    rig.kernel.shutdown().await;
    assert_eq!(rig.handled(), ["a event work {}"; 2]);
    assert_eq!(
        Journal::in_directory(&rig.kernel.home().data_dir("kernel"))
            .dead_letters()
            .await
            .unwrap()
            .len(),
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_kernel_delivers_per_home() {
    let rig = Rig::boot(home_with("a", CUSTOM)).await;
    rig.kernel.start_event_delivery().await.unwrap();
    rig.kernel.start_event_delivery().await.unwrap();
    let mut events = rig.kernel.events().subscribe_all();
    let home = Home::open(&rig.home.root(), HomeSource::Argument).unwrap();
    let options = skillhost_kernel::BootOptions {
        installation: None,
        limits: patient(),
        ..skillhost_kernel::BootOptions::new(home, skillhost_home::Settings::default())
    };
    let other = skillhost_kernel::Kernel::boot(options).await;
    let refused = other.start_event_delivery().await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    let deed = json!({"do": "emit", "topic": "work", "payload": {"then": "heard"}}).to_string();
    other.agents().invoke_tool(crate::rig::operator(), "a", &deed).await.unwrap();
    let heard = next(&mut events, "heard").await;
    assert_eq!((heard.id, heard.correlation_id.as_deref()), (2, Some("event-1")));
    other.shutdown().await;
    rig.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_applies_new_subscriptions() {
    let rig = Rig::boot(home_with("a", "")).await;
    rig.kernel.start_event_delivery().await.unwrap();
    rig.emit("work", json!({"then": "early"})).await;
    let manifest = format!("id: a\nname: a\nentrypoint: misbehave\n{CUSTOM}");
    rig.home.write("manifests/a/manifest.yaml", manifest);
    rig.kernel.agents().reload("a").await.unwrap();
    let mut events = rig.kernel.events().subscribe_all();
    rig.emit("work", json!({"then": "late"})).await;
    next(&mut events, "late").await;
    assert_eq!(rig.handled(), [r#"a event work {"then":"late"}"#]);
    rig.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn manifest_notice_reaches_user() {
    let rest = r#"
events:
  subscribes:
    - {topic: work, handler: notify_user, text: "{{ event.source }} has {{ payload.n }}"}
    - {topic: play, handler: notify_user}
"#;
    let rig = Rig::boot(home_with("a", rest)).await;
    rig.kernel.start_event_delivery().await.unwrap();
    let mut events = rig.kernel.events().subscribe_all();
    rig.emit("work", json!({"n": 3})).await;
    let reported = next(&mut events, topic::NOTICE).await;
    assert_eq!((&*reported.source, reported.payload.get()), ("a", r#"{"text":"a has 3"}"#));
    rig.emit("play", json!({"who": "b"})).await;
    let reported = next(&mut events, topic::NOTICE).await;
    assert_eq!(reported.payload.get(), r#"{"text":"play who=b"}"#);
    rig.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_kernel_creates_no_journal() {
    let rig = Rig::boot(home_with("a", CUSTOM)).await;
    rig.done("a", json!({"do": "notify", "text": "look"})).await;
    assert!(!rig.home.path("sandbox/data/kernel/events.db").exists());
    rig.emit("work", json!({})).await;
    let all = TailQuery { limit: 9, ..TailQuery::default() };
    let kept =
        Journal::in_directory(&rig.kernel.home().data_dir("kernel")).tail(all).await.unwrap();
    let kept: Vec<_> = kept.iter().map(|e| (e.id, e.topic.as_str(), e.source.as_str())).collect();
    assert_eq!(kept, [(1, "work", "a")]);
    rig.kernel.shutdown().await;
}
