//! Requests of an extension to the kernel: events, notices, secrets, other extensions.

use serde_json::json;
use skillhost_events::topic;
use skillhost_payload::ErrorKind;

use crate::fixture::{Gate, KernelFixture, home_with, misbehaving, next};

#[tokio::test(flavor = "multi_thread")]
async fn event_reaches_other_extension() {
    let home = misbehaving(home_with("a", ""), "b", "");
    let gate = Gate::open(&home);
    let fixture = KernelFixture::boot(home).await;
    let waiting = fixture.done("a", json!({"do": "await", "topic": "weather"}));
    let telling = async {
        drop(gate.reached("a a").await);
        fixture.done("b", json!({"do": "emit", "topic": "weathering", "payload": 1})).await;
        fixture
            .done("b", json!({"do": "emit", "topic": "weather.rain", "payload": {"mm": 3}}))
            .await;
    };
    let (heard, ()) = tokio::join!(waiting, telling);
    assert_eq!(heard, r#"weather.rain from b: {"mm":3}"#);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn notice_names_its_extension() {
    let fixture = KernelFixture::boot(home_with("a", "")).await;
    let mut events = fixture.kernel.events().subscribe_all();
    fixture.done("a", json!({"do": "notify", "text": "look"})).await;
    let event = next(&mut events, topic::NOTICE).await;
    assert_eq!((&*event.source, event.payload.get()), ("a", r#"{"text":"look"}"#));
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_requires_supervisor() {
    let fixture = KernelFixture::boot(home_with("a", "")).await;
    let refused = "restart requires a supervisor".to_owned();
    let restart = json!({"do": "restart", "reason": "new extension"});
    assert_eq!(fixture.fault("a", restart).await, (ErrorKind::Unavailable, refused));
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn extension_requests_one_restart() {
    let fixture = KernelFixture::boot_supervised(home_with("a", "")).await;
    let restart = json!({"do": "restart", "reason": "new extension"});
    let mut events = fixture.kernel.events().subscribe_all();
    fixture.done("a", restart.clone()).await;
    let event = next(&mut events, topic::RESTART_REQUESTED).await;
    assert_eq!((&*event.source, event.payload.get()), ("a", r#"{"text":"new extension"}"#));
    fixture.kernel.wait_for_restart_request().await;
    let refused = (ErrorKind::Conflict, "a restart is already in progress".to_owned());
    assert_eq!(fixture.fault("a", restart).await, refused);
    fixture.kernel.drain_runs().await;
    let (kernel, home) = (fixture.kernel, fixture.home);
    kernel.shutdown().await;

    // The next kernel reports the purpose of its start, once.
    let fixture = KernelFixture::boot_supervised(home).await;
    let mut events = fixture.kernel.events().subscribe_all();
    fixture.kernel.publish_restart_outcome().await;
    let event = next(&mut events, topic::RESTARTED).await;
    let reported: serde_json::Value = serde_json::from_str(event.payload.get()).unwrap();
    assert_eq!(
        reported,
        json!({"reason": "new extension", "by": "a", "loaded": ["a"], "rejected": []})
    );
    fixture.kernel.publish_restart_outcome().await;
    assert!(events.try_recv().is_err());
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_requires_declaration() {
    let home = misbehaving(
        home_with("a", "secrets: [WEATHER_KEY, UNSET_KEY, {name: SPARE_KEY, optional: true}]"),
        "b",
        "",
    )
    .file(".env", "WEATHER_KEY=sunny\n");
    let fixture = KernelFixture::boot(home).await;
    let ask = |name: &str| json!({"do": "secret", "name": name});
    assert_eq!(fixture.done("a", ask("WEATHER_KEY")).await, "Secret(…) is sunny");
    assert_eq!(fixture.done("a", ask("UNSET_KEY")).await, "it is not set");
    let denied = "the manifest does not name the secret `WEATHER_KEY`".to_owned();
    assert_eq!(fixture.fault("b", ask("WEATHER_KEY")).await, (ErrorKind::Denied, denied));
    assert_eq!(
        fixture.kernel.report().notes,
        ["`a` lacks the secrets UNSET_KEY (set them in the environment or in .env)"]
    );
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn provider_requires_dependency() {
    let home = home_with("a", "config: {skills: {x: Be kind.}}");
    let home = misbehaving(misbehaving(home, "b", "depends_on: [a]"), "c", "");
    let fixture = KernelFixture::boot(home).await;
    let skill = |id: &str| json!({"do": "skill", "extension": "a", "id": id});
    assert_eq!(fixture.done("b", skill("x")).await, "Be kind. (misbehave)");
    assert_eq!(
        fixture.fault("b", skill("y")).await,
        (ErrorKind::NotFound, "no skill `y`".to_owned())
    );
    let denied = "`a` is not in depends_on of `c`".to_owned();
    assert_eq!(fixture.fault("c", skill("x")).await, (ErrorKind::Denied, denied));
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_tool_call_names_reason() {
    let fixture = KernelFixture::boot(misbehaving(home_with("a", ""), "b", "")).await;
    let call = |tool: &str, deed| json!({"do": "call", "tool": tool, "arguments": deed});
    assert_eq!(fixture.done("a", call("b", json!({"do": "build"}))).await, "misbehave");
    let panic = call("b", json!({"do": "act", "act": "panic"}));
    let expected = "the extension panicked: b panicked".to_owned();
    assert_eq!(fixture.fault("a", panic).await, (ErrorKind::Panicked, expected));
    let unknown = call("bb", json!({}));
    assert_eq!(
        fixture.fault("a", unknown).await,
        (ErrorKind::NotFound, "tool `bb` not found".to_owned())
    );
    fixture.kernel.shutdown().await;
}
