//! What an extension may ask of the kernel: events, notices, secrets, other extensions.

use serde_json::json;
use skillhost_kernel::{ErrorKind, topic};

use crate::rig::{Gate, Rig, home_with, misbehaving, next};

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_one_extension_reaches_another() {
    let home = misbehaving(home_with("a", ""), "b", "");
    let gate = Gate::open(&home);
    let rig = Rig::boot(home).await;
    let waiting = rig.done("a", json!({"do": "await", "topic": "weather"}));
    let telling = async {
        drop(gate.reached("a a").await);
        rig.done("b", json!({"do": "emit", "topic": "weathering", "payload": 1})).await;
        rig.done("b", json!({"do": "emit", "topic": "weather.rain", "payload": {"mm": 3}})).await;
    };
    let (heard, ()) = tokio::join!(waiting, telling);
    assert_eq!(heard, r#"weather.rain from b: {"mm":3}"#);
    rig.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notice_carries_the_name_of_its_extension() {
    let rig = Rig::boot(home_with("a", "")).await;
    let mut events = rig.kernel.events().subscribe_all();
    rig.done("a", json!({"do": "notify", "text": "look"})).await;
    let event = next(&mut events, topic::NOTICE).await;
    assert_eq!((&*event.source, event.payload.get()), ("a", r#"{"text":"look"}"#));
    rig.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_is_refused_where_nobody_could_do_it() {
    let rig = Rig::boot(home_with("a", "")).await;
    let refused = "nothing is there that would start the kernel again".to_owned();
    let restart = json!({"do": "restart", "reason": "new extension"});
    assert_eq!(rig.fault("a", restart).await, (ErrorKind::Unavailable, refused));
    rig.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_can_ask_for_one_restart() {
    let rig = Rig::boot_supervised(home_with("a", "")).await;
    let restart = json!({"do": "restart", "reason": "new extension"});
    let mut events = rig.kernel.events().subscribe_all();
    rig.done("a", restart.clone()).await;
    let event = next(&mut events, topic::RESTART_REQUESTED).await;
    assert_eq!((&*event.source, event.payload.get()), ("a", r#"{"text":"new extension"}"#));
    rig.kernel.wait_for_restart_request().await;
    let refused = (ErrorKind::Conflict, "a restart is under way".to_owned());
    assert_eq!(rig.fault("a", restart).await, refused);
    rig.kernel.drain_runs().await;
    let (kernel, home) = (rig.kernel, rig.home);
    kernel.shutdown().await;

    // The kernel that comes next says what it was started for, once.
    let rig = Rig::boot_supervised(home).await;
    let mut events = rig.kernel.events().subscribe_all();
    rig.kernel.publish_restart_outcome().await;
    let event = next(&mut events, topic::RESTARTED).await;
    let told: serde_json::Value = serde_json::from_str(event.payload.get()).unwrap();
    assert_eq!(
        told,
        json!({"reason": "new extension", "by": "a", "loaded": ["a"], "rejected": []})
    );
    rig.kernel.publish_restart_outcome().await;
    assert!(events.try_recv().is_err());
    rig.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_given_to_those_that_declare_it() {
    let home = misbehaving(
        home_with("a", "secrets: [WEATHER_KEY, UNSET_KEY, {name: SPARE_KEY, optional: true}]"),
        "b",
        "",
    )
    .file(".env", "WEATHER_KEY=sunny\n");
    let rig = Rig::boot(home).await;
    let ask = |name: &str| json!({"do": "secret", "name": name});
    assert_eq!(rig.done("a", ask("WEATHER_KEY")).await, "Secret(…) is sunny");
    assert_eq!(rig.done("a", ask("UNSET_KEY")).await, "it is not set");
    let denied = "the manifest does not name the secret `WEATHER_KEY`".to_owned();
    assert_eq!(rig.fault("b", ask("WEATHER_KEY")).await, (ErrorKind::Denied, denied));
    assert_eq!(
        rig.kernel.report().notes,
        ["`a` lacks the secrets UNSET_KEY (set them in the environment or in .env)"]
    );
    rig.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_extensions_provider_is_open_to_those_that_depend_on_it() {
    let home = home_with("a", "config: {skills: {x: Be kind.}}");
    let home = misbehaving(misbehaving(home, "b", "depends_on: [a]"), "c", "");
    let rig = Rig::boot(home).await;
    let skill = |id: &str| json!({"do": "skill", "extension": "a", "id": id});
    assert_eq!(rig.done("b", skill("x")).await, "Be kind. (misbehave)");
    assert_eq!(rig.fault("b", skill("y")).await, (ErrorKind::NotFound, "no skill `y`".to_owned()));
    let denied = "`a` is not in depends_on of `c`".to_owned();
    assert_eq!(rig.fault("c", skill("x")).await, (ErrorKind::Denied, denied));
    rig.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_calls_others_tools_and_learns_why_it_cannot() {
    let rig = Rig::boot(misbehaving(home_with("a", ""), "b", "")).await;
    let call = |tool: &str, deed| json!({"do": "call", "tool": tool, "arguments": deed});
    assert_eq!(rig.done("a", call("b", json!({"do": "build"}))).await, "misbehave");
    let panic = call("b", json!({"do": "act", "act": "panic"}));
    let expected = "the extension panicked: b panicked".to_owned();
    assert_eq!(rig.fault("a", panic).await, (ErrorKind::Panicked, expected));
    let unknown = call("bb", json!({}));
    assert_eq!(rig.fault("a", unknown).await, (ErrorKind::NotFound, "tool `bb` not found".to_owned()));
    rig.kernel.shutdown().await;
}
