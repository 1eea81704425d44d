//! The lifecycle of an extension: steps in order, service, health, shutdown.

use std::collections::BTreeMap;

use skillhost_core::KernelLimits;
use skillhost_events::topic;
use skillhost_payload::ErrorKind;
use test_support::TestHome;

use crate::fixture::{Gate, KernelFixture, SOON, home_with, misbehaving, next, patient};

/// Limits for extensions that do not end.
fn impatient() -> KernelLimits {
    KernelLimits { stop: SOON, drain: SOON, ..patient() }
}

/// Returns the health error of each extension; `None` for the healthy ones.
async fn health(fixture: &KernelFixture) -> BTreeMap<String, Option<(ErrorKind, String)>> {
    let answers = fixture.kernel.extensions().check_health().await;
    let said = |error: skillhost_payload::CallError| (error.kind, error.message);
    answers.into_iter().map(|(id, answer)| (id.to_string(), answer.err().map(said))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_order_is_reverse_service_first() {
    let home = misbehaving(TestHome::new(), "top", "depends_on: [base]");
    let fixture = KernelFixture::boot(misbehaving(home, "base", "")).await;
    fixture.kernel.shutdown().await;
    let (services, others): (Vec<_>, Vec<_>) =
        fixture.record().into_iter().partition(|step| step.ends_with(" service"));
    // They run in parallel, so only the order of the other steps is fixed.
    assert_eq!(services.len(), 2);
    let expected = [
        "base new",
        "base start",
        "top new",
        "top start",
        "top service ended",
        "top stop",
        "top drop",
        "base service ended",
        "base stop",
        "base drop",
    ];
    assert_eq!(others, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn dependencies_outlive_their_dependents() {
    let home =
        misbehaving(TestHome::new(), "top", "depends_on: [base]\nconfig: {parts: {stop: hang}}");
    let home = misbehaving(home, "base", "");
    let gate = Gate::open(&home);
    let fixture = KernelFixture::boot(home).await;
    let kernel = fixture.kernel.clone();
    let ending = tokio::spawn(async move { kernel.shutdown().await });
    let _held = gate.reached("top stop").await;
    // Calls that top could make now through its context.
    assert_eq!(fixture.build("base").await, "misbehave");
    assert_eq!(
        fixture.tool("top", serde_json::json!({})).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    ending.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn services_run_only_on_request() {
    let fixture = KernelFixture::boot_with(home_with("a", ""), patient(), false).await;
    fixture.kernel.shutdown().await;
    assert_eq!(fixture.record(), ["a new", "a start", "a stop", "a drop"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_service_is_published_and_unhealthy() {
    let home = misbehaving(TestHome::new(), "fails", "config: {parts: {service: fail}}");
    let home = misbehaving(home, "panics", "config: {parts: {service: panic}}");
    let home = misbehaving(home, "well", "config: {parts: {service: block}}");
    let gate = Gate::open(&home);
    let fixture = KernelFixture::boot_with(home, patient(), false).await;
    let mut events = fixture.kernel.events().subscribe_all();
    fixture.kernel.start_services().await;
    let held = gate.reached("well service").await;
    let mut failed = BTreeMap::new();
    for _ in 0..2 {
        let event = next(&mut events, topic::SERVICE_FAILED).await;
        let payload: BTreeMap<String, String> = serde_json::from_str(event.payload.get()).unwrap();
        failed.insert(payload["id"].clone(), payload["reason"].clone());
    }
    let panic = "the extension panicked: service panicked".to_owned();
    let expected =
        [("fails".to_owned(), "service failed".to_owned()), ("panics".to_owned(), panic.clone())];
    assert_eq!(failed, BTreeMap::from(expected));
    let expected = [
        ("fails".to_owned(), Some((ErrorKind::Failed, "service failed".to_owned()))),
        ("panics".to_owned(), Some((ErrorKind::Panicked, panic))),
        ("well".to_owned(), None),
    ];
    assert_eq!(health(&fixture).await, BTreeMap::from(expected));
    // Their tools still work.
    assert_eq!(fixture.build("fails").await, "misbehave");
    drop(held);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn health_checks_have_separate_timeouts() {
    let home = misbehaving(TestHome::new(), "fails", "config: {parts: {health: fail}}");
    let home = misbehaving(home, "hangs", "config: {parts: {health: hang}}");
    let home = misbehaving(home, "panics", "config: {parts: {health: panic}}");
    let home = misbehaving(home, "well", "");
    let gate = Gate::open(&home);
    let fixture =
        KernelFixture::boot_with(home, KernelLimits { health: SOON, ..patient() }, false).await;
    let (said, held) = tokio::join!(health(&fixture), gate.reached("hangs health"));
    let some = |kind, text: &str| Some((kind, text.to_owned()));
    let expected = [
        ("fails".to_owned(), some(ErrorKind::Failed, "health failed")),
        ("hangs".to_owned(), some(ErrorKind::Timeout, "`hangs` timed out after 2000 ms")),
        ("panics".to_owned(), some(ErrorKind::Panicked, "the extension panicked: health panicked")),
        ("well".to_owned(), None),
    ];
    assert_eq!(said, BTreeMap::from(expected));
    held.given_up().await;
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn uncancellable_service_is_dropped() {
    let home = home_with("a", "config: {parts: {service: hang}}");
    let gate = Gate::open(&home);
    let fixture = KernelFixture::boot_with(home, impatient(), true).await;
    let held = gate.reached("a service").await;
    fixture.kernel.shutdown().await;
    held.given_up().await;
    assert_eq!(fixture.record(), ["a new", "a start", "a service", "a stop", "a drop"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_shutdown_delays_no_other() {
    let home = misbehaving(
        TestHome::new(),
        "blocks",
        "depends_on: [base]\nconfig: {parts: {service: block}}",
    );
    let home = misbehaving(home, "hangs", "depends_on: [base]\nconfig: {parts: {stop: hang}}");
    let home = misbehaving(home, "panics", "depends_on: [base]\nconfig: {parts: {stop: panic}}");
    let home = misbehaving(home, "drops", "depends_on: [base]\nconfig: {parts: {drop: panic}}");
    let home = misbehaving(home, "bombs", "depends_on: [base]\nconfig: {parts: {drop: bomb}}");
    let home = misbehaving(home, "base", "");
    let gate = Gate::open(&home);
    let fixture = KernelFixture::boot_with(home, impatient(), true).await;
    let blocked = gate.reached("blocks service").await;
    let (hung, ()) = tokio::join!(gate.reached("hangs stop"), fixture.kernel.shutdown());
    hung.given_up().await;
    let record = fixture.record();
    let steps = |id: &str| -> Vec<String> {
        record.iter().filter_map(|step| step.strip_prefix(id)).map(str::to_owned).collect()
    };
    for id in ["hangs", "panics", "drops", "bombs", "base"] {
        assert_eq!(steps(id), [" new", " start", " service", " service ended", " stop", " drop"]);
    }
    // A blocked thread cannot be ended, and its data cannot be dropped while it runs.
    assert_eq!(steps("blocks"), [" new", " start", " service", " stop"]);
    assert_eq!(record.last().map(String::as_str), Some("base drop"));
    drop(blocked);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_kernel_does_not_wait() {
    let home = home_with("a", "");
    let gate = Gate::open(&home);
    let fixture = KernelFixture::boot(home).await;
    let kernel = fixture.kernel.clone();
    let call = tokio::spawn(async move {
        kernel
            .agents()
            .invoke_tool(crate::fixture::operator(), "a", r#"{"do": "act", "act": "block"}"#)
            .await
    });
    let held = gate.reached("a a").await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    drop(fixture);
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn blocking_priority_rejects_extension() {
    let home = misbehaving(TestHome::new(), "blocks", "config: {parts: {priority: block}}");
    let home = misbehaving(home, "works", "");
    let gate = Gate::open(&home);
    let limits = KernelLimits { start: SOON, ..impatient() };
    let (fixture, held) =
        tokio::join!(KernelFixture::boot_with(home, limits, true), gate.reached("blocks priority"));
    assert_eq!(fixture.loaded(), ["works"]);
    let said = fixture.rejection("blocks");
    assert!(said.contains("`blocks` timed out after 2000 ms"), "{said}");
    assert_eq!(fixture.build("works").await, "misbehave");
    fixture.kernel.shutdown().await;
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn blocking_drop_does_not_delay_shutdown() {
    let home = misbehaving(
        TestHome::new(),
        "blocks",
        "depends_on: [base]\nconfig: {parts: {drop: block}}",
    );
    let home = misbehaving(home, "base", "");
    let gate = Gate::open(&home);
    let fixture = KernelFixture::boot_with(home, impatient(), true).await;
    let ((), held) = tokio::join!(fixture.kernel.shutdown(), gate.reached("blocks drop"));
    assert_eq!(fixture.record().last().map(String::as_str), Some("base drop"));
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn blocking_drop_does_not_delay_reload() {
    let home = home_with("a", "config: {parts: {drop: block}}");
    let gate = Gate::open(&home);
    let fixture = KernelFixture::boot_with(home, impatient(), true).await;
    let (reloaded, held) =
        tokio::join!(fixture.kernel.agents().reload("a"), gate.reached("a drop"));
    assert_eq!(reloaded.unwrap().id, "a");
    assert_eq!(fixture.build("a").await, "misbehave");
    drop(held);
}
