//! Events that manifests subscribe: handling, retries, dead letters.

use std::time::Duration;

use serde_json::{Value, json};
use skillhost_core::KernelLimits;
use skillhost_events::{Journal, TailQuery, topic};
use skillhost_home::{Home, HomeSource};
use skillhost_payload::ErrorKind;
use test_support::STUCK_AFTER;

use crate::fixture::{Gate, KernelFixture, SOON, home_with, misbehaving, next, patient};

const CUSTOM: &str = "events: {subscribes: [{topic: work, handler: custom}]}\n";

impl KernelFixture {
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
    let fixture = KernelFixture::boot(home).await;
    fixture.kernel.start_event_delivery().await.unwrap();
    let mut events = fixture.kernel.events().subscribe_all();
    fixture.emit("work", json!({"n": 1})).await;
    let dead = next(&mut events, topic::EVENT_DEAD).await;
    let payload: Value = serde_json::from_str(dead.payload.get()).unwrap();
    assert_eq!(
        payload,
        json!({"delivery": 1, "subscriber": "a:work:custom", "event": 1, "topic": "work",
               "attempts": 4, "error": "event failed; try less"})
    );
    assert_eq!(dead.correlation_id.as_deref(), Some("event-1"));
    assert_eq!(fixture.handled(), [r#"a event work {"n":1}"#; 4]);

    fixture.done("a", json!({"do": "become", "place": "event", "act": "block"})).await;
    // As another process does.
    let theirs = Journal::in_directory(&fixture.kernel.home().data_dir("kernel"));
    let letters = theirs.dead_letters().await.unwrap();
    assert_eq!(letters.iter().map(|letter| letter.id).collect::<Vec<_>>(), [1]);
    theirs.retry_dead_letter(1).await.unwrap();
    drop(gate.reached("a event").await);
    fixture.kernel.shutdown().await;
    assert_eq!(fixture.handled().len(), 5);
    assert_eq!(theirs.dead_letters().await.unwrap().len(), 0);
}

/// Makes a statement about deliveries fail, like a full disk, until the returned closure is run.
fn fault(fixture: &KernelFixture, statement: &str) -> impl FnOnce() + use<> {
    let journal = fixture.home.path("sandbox/data/kernel/events.db");
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
async fn until_delivery_fails(fixture: &KernelFixture, fails: bool) {
    let waiting = async {
        while fixture.kernel.delivery_problem().is_some() != fails {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(STUCK_AFTER, waiting).await.expect("the kernel looks twice a second");
}

#[tokio::test(flavor = "multi_thread")]
async fn unrecorded_outcome_is_recorded_later() {
    let fixture = KernelFixture::boot(home_with("a", CUSTOM)).await;
    fixture.kernel.start_event_delivery().await.unwrap();
    let mut events = fixture.kernel.events().subscribe_all();
    let repair = fault(&fixture, "DELETE");
    fixture.emit("work", json!({"then": "first"})).await;
    next(&mut events, "first").await;
    fixture.emit("work", json!({"then": "second"})).await;
    until_delivery_fails(&fixture, true).await;
    repair();
    // Without a restart, and the first event is not handled again.
    next(&mut events, "second").await;
    until_delivery_fails(&fixture, false).await;
    let expected = [r#"a event work {"then":"first"}"#, r#"a event work {"then":"second"}"#];
    assert_eq!(fixture.handled(), expected);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_claim_is_repeated() {
    let fixture = KernelFixture::boot(home_with("a", CUSTOM)).await;
    fixture.kernel.start_event_delivery().await.unwrap();
    let mut events = fixture.kernel.events().subscribe_all();
    let repair = fault(&fixture, "UPDATE");
    fixture.emit("work", json!({"then": "late"})).await;
    until_delivery_fails(&fixture, true).await;
    repair();
    next(&mut events, "late").await;
    assert_eq!(fixture.handled().len(), 1);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn delivery_starts_after_journal_creation() {
    let home = home_with("a", CUSTOM);
    // A directory in place of the file has the effect of a full disk.
    let obstacle = home.path("sandbox/data/kernel/events.db.lock");
    std::fs::create_dir_all(&obstacle).unwrap();
    let fixture = KernelFixture::boot(home).await;
    fixture.kernel.start_event_delivery().await.unwrap();
    let problem = fixture.kernel.delivery_problem().expect("nothing can be delivered");
    assert_eq!(problem.kind, ErrorKind::Io);
    std::fs::remove_dir(&obstacle).unwrap();
    until_delivery_fails(&fixture, false).await;
    let mut events = fixture.kernel.events().subscribe_all();
    fixture.emit("work", json!({"then": "delivered"})).await;
    next(&mut events, "delivered").await;
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_or_panicking_handler_fails() {
    let rest = "events: {subscribes: [{topic: work, handler: custom, timeout_ms: 20}]}\n";
    let home = home_with("a", &format!("{rest}config: {{parts: {{event: hang}}}}"));
    let home = misbehaving(home, "b", &format!("{CUSTOM}config: {{parts: {{event: panic}}}}"));
    let _gate = Gate::open(&home);
    let fixture = KernelFixture::boot(home).await;
    fixture.kernel.start_event_delivery().await.unwrap();
    let mut events = fixture.kernel.events().subscribe_all();
    fixture.emit("work", json!({})).await;
    let mut errors = Vec::new();
    for _ in 0..2 {
        let dead = next(&mut events, topic::EVENT_DEAD).await;
        let payload: Value = serde_json::from_str(dead.payload.get()).unwrap();
        errors.push(payload["error"].as_str().unwrap().to_owned());
    }
    errors.sort();
    assert_eq!(
        errors,
        [
            "event handler timed out after 20 ms; raise timeout_ms of the subscription in the \
             manifest",
            "the extension panicked: event panicked"
        ]
    );
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn handler_events_keep_correlation() {
    let fixture = KernelFixture::boot(home_with("a", CUSTOM)).await;
    fixture.kernel.start_event_delivery().await.unwrap();
    let mut events = fixture.kernel.events().subscribe_all();
    fixture.emit("work.now", json!({"then": "play"})).await;
    let play = next(&mut events, "play").await;
    assert_eq!((play.id, play.payload.get()), (2, r#"{"of":1}"#));
    assert_eq!(play.correlation_id.as_deref(), Some("event-1"));
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_delivery_resumes_after_start() {
    let home = home_with("a", &format!("{CUSTOM}config: {{parts: {{event: hang}}}}"));
    let gate = Gate::open(&home);
    let limits = KernelLimits { drain: Duration::from_millis(1), ..patient() };
    let fixture = KernelFixture::boot_with(home, limits, true).await;
    fixture.kernel.start_event_delivery().await.unwrap();
    fixture.emit("work", json!({})).await;
    let held = gate.reached("a event").await;
    fixture.kernel.shutdown().await;
    held.given_up().await;

    let fixture =
        KernelFixture::boot_with(fixture.home, KernelLimits { drain: SOON, ..patient() }, true)
            .await;
    fixture.done("a", json!({"do": "become", "place": "event", "act": "block"})).await;
    fixture.kernel.start_event_delivery().await.unwrap();
    drop(gate.reached("a event").await);
    fixture.kernel.shutdown().await;
    assert_eq!(fixture.handled(), ["a event work {}"; 2]);
    assert_eq!(
        Journal::in_directory(&fixture.kernel.home().data_dir("kernel"))
            .dead_letters()
            .await
            .unwrap()
            .len(),
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_kernel_delivers_per_home() {
    let fixture = KernelFixture::boot(home_with("a", CUSTOM)).await;
    fixture.kernel.start_event_delivery().await.unwrap();
    fixture.kernel.start_event_delivery().await.unwrap();
    let mut events = fixture.kernel.events().subscribe_all();
    let home = Home::open(&fixture.home.root(), HomeSource::Argument).unwrap();
    let options = skillhost_kernel::BootOptions {
        installation: None,
        limits: patient(),
        ..skillhost_kernel::BootOptions::new(home, skillhost_home::Settings::default())
    };
    let other = skillhost_kernel::Kernel::boot(options).await;
    let refused = other.start_event_delivery().await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    let deed = json!({"do": "emit", "topic": "work", "payload": {"then": "heard"}}).to_string();
    other.agents().invoke_tool(crate::fixture::operator(), "a", &deed).await.unwrap();
    let heard = next(&mut events, "heard").await;
    assert_eq!((heard.id, heard.correlation_id.as_deref()), (2, Some("event-1")));
    other.shutdown().await;
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_applies_new_subscriptions() {
    let fixture = KernelFixture::boot(home_with("a", "")).await;
    fixture.kernel.start_event_delivery().await.unwrap();
    fixture.emit("work", json!({"then": "early"})).await;
    let manifest = format!("id: a\nname: a\nentrypoint: misbehave\n{CUSTOM}");
    fixture.home.write("manifests/a/manifest.yaml", manifest);
    fixture.kernel.agents().reload("a").await.unwrap();
    let mut events = fixture.kernel.events().subscribe_all();
    fixture.emit("work", json!({"then": "late"})).await;
    next(&mut events, "late").await;
    assert_eq!(fixture.handled(), [r#"a event work {"then":"late"}"#]);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn manifest_notice_reaches_user() {
    let rest = r#"
events:
  subscribes:
    - {topic: work, handler: notify_user, text: "{{ event.source }} has {{ payload.n }}"}
    - {topic: play, handler: notify_user}
"#;
    let fixture = KernelFixture::boot(home_with("a", rest)).await;
    fixture.kernel.start_event_delivery().await.unwrap();
    let mut events = fixture.kernel.events().subscribe_all();
    fixture.emit("work", json!({"n": 3})).await;
    let reported = next(&mut events, topic::NOTICE).await;
    assert_eq!((&*reported.source, reported.payload.get()), ("a", r#"{"text":"a has 3"}"#));
    fixture.emit("play", json!({"who": "b"})).await;
    let reported = next(&mut events, topic::NOTICE).await;
    assert_eq!(reported.payload.get(), r#"{"text":"play who=b"}"#);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_kernel_creates_no_journal() {
    let fixture = KernelFixture::boot(home_with("a", CUSTOM)).await;
    fixture.done("a", json!({"do": "notify", "text": "look"})).await;
    assert!(!fixture.home.path("sandbox/data/kernel/events.db").exists());
    fixture.emit("work", json!({})).await;
    let all = TailQuery { limit: 9, ..TailQuery::default() };
    let kept =
        Journal::in_directory(&fixture.kernel.home().data_dir("kernel")).tail(all).await.unwrap();
    let kept: Vec<_> = kept.iter().map(|e| (e.id, e.topic.as_str(), e.source.as_str())).collect();
    assert_eq!(kept, [(1, "work", "a")]);
    fixture.kernel.shutdown().await;
}
