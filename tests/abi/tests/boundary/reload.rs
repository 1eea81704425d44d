//! Replacing a build while the kernel runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};
use skillhost_agents::TurnRequest;
use skillhost_core::KernelLimits;
use skillhost_events::topic;
use skillhost_home::{Home, HomeSource, Installation, Settings};
use skillhost_kernel::{BootOptions, Kernel};
use skillhost_payload::ErrorKind;
use test_support::{TestHome, example_library};

use crate::fixture::{Gate, KernelFixture, SOON, home_with, misbehaving, next, operator, patient};

const OLD: &str = "misbehave";
const NEW: &str = "misbehave_next::misbehave";

/// Replaces the extension's library with a build, as its author's copy would.
fn install(fixture: &KernelFixture, id: &str, example: &str) {
    fixture.home.replace_library(id, "misbehave", &example_library(example));
}

/// The shipped manifests are those of the installation with which the kernel was booted,
/// independent of the running executable.
#[tokio::test(flavor = "multi_thread")]
async fn installed_extension_reloads_from_installation() {
    let home = TestHome::new();
    let share = home.outside().join("share/skillhost");
    let folder = share.join("manifests/a");
    std::fs::create_dir_all(&folder).unwrap();
    let manifest = "id: a\nname: a\nentrypoint: misbehave\n";
    std::fs::write(folder.join("manifest.yaml"), manifest).unwrap();
    let library = example_library("misbehave");
    std::fs::copy(&library, folder.join(library.file_name().unwrap())).unwrap();
    let installation = Installation::from_share_dir(share);
    let found = Home::open(&home.root(), HomeSource::Argument).unwrap();
    let options = BootOptions::new(found, Settings::default());
    let options = BootOptions { installation: Some(installation), limits: patient(), ..options };
    let kernel = Kernel::boot(options).await;
    assert_eq!(kernel.agents().reload("a").await.unwrap().id, "a");
    kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_build_replaces_old_one() {
    let fixture = KernelFixture::boot(misbehaving(home_with("a", ""), "b", "")).await;
    let mut events = fixture.kernel.events().subscribe_all();
    install(&fixture, "a", "misbehave_next");
    let reloaded = fixture.kernel.agents().reload("a").await.unwrap();
    assert_eq!((&*reloaded.id, &*reloaded.from, &*reloaded.to), ("a", "0.1.0", "0.1.0"));
    assert!(reloaded.switched_ms <= reloaded.drained_ms);
    assert_eq!(fixture.build("a").await, NEW);
    assert_eq!(fixture.build("b").await, OLD);
    let event = next(&mut events, topic::RELOADED).await;
    let payload: Value = serde_json::from_str(event.payload.get()).unwrap();
    assert_eq!(payload, json!({"from": "0.1.0", "id": "a", "to": "0.1.0"}));
    fixture.kernel.shutdown().await;
    let record: Vec<_> =
        fixture.record().into_iter().filter(|step| step.starts_with('a')).collect();
    // The two services never run at once; the two extensions do.
    let expected = [
        "a new",
        "a start",
        "a service",
        "a new",
        "a start",
        "a service ended",
        "a service",
        "a stop",
        "a drop",
        "a service ended",
        "a stop",
        "a drop",
    ];
    let place = |nth: usize| {
        let mut services = record.iter().enumerate().filter(|(_, step)| *step == "a service");
        services.nth(nth).expect("each build's service ran").0
    };
    let ended = record.iter().position(|step| step == "a service ended").unwrap();
    assert!(place(0) < ended && ended < place(1), "{record:?}");
    let (mut sorted, mut expected) = (record.clone(), expected.map(str::to_owned).to_vec());
    sorted.sort();
    expected.sort();
    assert_eq!(sorted, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn swapping_builds_loses_no_call() {
    let home = home_with("a", "config: {block: block}");
    let fixture = Arc::new(
        KernelFixture::boot(home.manifest("guide", "id: guide\nname: Guide\nagent: {}\n")).await,
    );
    let stop = Arc::new(AtomicBool::new(false));
    let served = Arc::new(AtomicU64::new(0));
    let callers: Vec<_> = (0..8)
        .map(|caller| {
            let (fixture, stop, served) =
                (Arc::clone(&fixture), Arc::clone(&stop), Arc::clone(&served));
            tokio::spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    if caller % 4 == 0 {
                        let request =
                            TurnRequest { agent: Some("guide".into()), ..TurnRequest::default() };
                        let turn = fixture.kernel.agents().compose_turn(&request).await.unwrap();
                        assert_eq!(turn.system_prompt, "block", "{:?}", turn.blocks);
                    } else {
                        let build = fixture.build("a").await;
                        assert!(build == OLD || build == NEW, "{build}");
                    }
                    served.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for build in [NEW, OLD].into_iter().cycle().take(12) {
        let before = served.load(Ordering::SeqCst);
        install(&fixture, "a", if build == NEW { "misbehave_next" } else { "misbehave" });
        fixture.kernel.agents().reload("a").await.unwrap();
        assert_eq!(fixture.build("a").await, build);
        // The next swap meets calls that the new build has started.
        while served.load(Ordering::SeqCst) < before + 50 {
            assert!(!callers.iter().any(tokio::task::JoinHandle::is_finished));
            tokio::task::yield_now().await;
        }
    }
    stop.store(true, Ordering::SeqCst);
    for caller in callers {
        caller.await.unwrap();
    }
    fixture.kernel.shutdown().await;
    let ends = fixture.record().into_iter().filter(|step| step == "a stop").count();
    assert_eq!(ends, 13);
}

#[tokio::test(flavor = "multi_thread")]
async fn active_call_finishes_on_old_build() {
    let home = home_with("a", "");
    let gate = Gate::open(&home);
    let fixture = KernelFixture::boot_with(home, patient(), false).await;
    let call = tokio::spawn({
        let kernel = fixture.kernel.clone();
        async move {
            kernel.agents().invoke_tool(operator(), "a", r#"{"do": "await", "topic": "go"}"#).await
        }
    });
    drop(gate.reached("a a").await);
    install(&fixture, "a", "misbehave_next");
    let reload = tokio::spawn({
        let kernel = fixture.kernel.clone();
        async move { kernel.agents().reload("a").await }
    });
    while fixture.build("a").await == OLD {
        tokio::task::yield_now().await;
    }
    assert_eq!(fixture.record(), ["a new", "a start", "a new", "a start"]);
    assert!(!reload.is_finished() && !call.is_finished());
    fixture.done("a", json!({"do": "emit", "topic": "go", "payload": 1})).await;
    assert_eq!(call.await.unwrap().unwrap().text, "go from a: 1");
    reload.await.unwrap().unwrap();
    assert_eq!(fixture.record()[4], "a stop");
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_call_is_cancelled_with_build() {
    let home = home_with("a", "");
    let gate = Gate::open(&home);
    let fixture =
        KernelFixture::boot_with(home, KernelLimits { drain: SOON, ..patient() }, false).await;
    let call = tokio::spawn({
        let kernel = fixture.kernel.clone();
        async move {
            kernel.agents().invoke_tool(operator(), "a", r#"{"do": "act", "act": "hang"}"#).await
        }
    });
    let held = gate.reached("a a").await;
    fixture.kernel.agents().reload("a").await.unwrap();
    held.given_up().await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), &*error.to_string()),
        (ErrorKind::Cancelled, "the call was cancelled")
    );
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_build_changes_no_state() {
    let fixture = KernelFixture::boot(misbehaving(home_with("a", ""), "b", "")).await;
    let yaml = |config: &str| format!("id: a\nname: a\nentrypoint: misbehave\nconfig: {config}\n");
    let (path, plain) = ("manifests/a/manifest.yaml", "{}");
    let cases = [
        (
            plain,
            "non_plugin",
            "open): [HOME]/manifests/a/libmisbehave.so: not a skillhost extension (it exports no `skillhost_contract_version`)",
            "export a type with skillhost_sdk::export_extension!",
        ),
        (
            "{parts: {new: panic}}",
            "misbehave_next",
            "new): the extension panicked: new panicked",
            "",
        ),
        ("{parts: {start: fail}}", "misbehave_next", "start): start failed", "try less"),
        (
            "{tools: [b]}",
            "misbehave_next",
            "wire): the tool `b` of `a` is already provided by `b`",
            "write into the manifest of `a`: tools: {prefix: a_}\nor disable one of the two",
        ),
        (
            "{",
            "misbehave_next",
            "parse): [HOME]/manifests/a/manifest.yaml:5:1: ",
            "correct the manifest; skillhost schema manifest prints its schema",
        ),
    ];
    for (config, example, reason, hint) in cases {
        fixture.home.write(path, yaml(config));
        install(&fixture, "a", example);
        let error = fixture.kernel.agents().reload("a").await.unwrap_err();
        let message = fixture.home.redact(&error.to_string());
        assert!(message.starts_with(&format!("`a` was not reloaded ({reason}")), "{message}");
        let old = "the previous build stays in use";
        assert_eq!(error.hint(), format!("{hint}\n{old}").trim_start());
        assert_eq!(fixture.build("a").await, OLD);
    }
    assert!(!fixture.record().contains(&"a service ended".to_owned()));
    fixture.home.write(path, yaml(plain));
    fixture.kernel.agents().reload("a").await.unwrap();
    assert_eq!(fixture.build("a").await, NEW);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_reads_current_manifest() {
    // The first build has neither context nor service.
    let home = TestHome::new()
        .manifest("a", "id: a\nname: a\nentrypoint: misbehave\nconfig: {max_items: 1}\n")
        .library("a", "misbehave", &example_library("template-tool-provider"))
        .manifest("guide", "id: guide\nname: Guide\nagent: {instructions: Guide.}\n");
    let gate = Gate::open(&home);
    let fixture = KernelFixture::boot(home).await;
    let request = TurnRequest { agent: Some("guide".into()), ..TurnRequest::default() };
    assert_eq!(
        fixture.kernel.agents().compose_turn(&request).await.unwrap().system_prompt,
        "Guide."
    );
    let config = "{block: now, tools: [x], parts: {service: hang}}";
    let yaml = format!("id: a\nname: a\nentrypoint: misbehave\nconfig: {config}\n");
    fixture.home.write("manifests/a/manifest.yaml", yaml);
    install(&fixture, "a", "misbehave");
    fixture.kernel.agents().reload("a").await.unwrap();
    let _held = gate.reached("a service").await;
    assert_eq!(
        fixture.kernel.agents().compose_turn(&request).await.unwrap().system_prompt,
        "Guide.\n\n---\n\nnow"
    );
    assert_eq!(fixture.build("x").await, OLD);
    let gone = fixture.fault("checklist_show", json!({})).await;
    assert_eq!(gone, (ErrorKind::NotFound, "tool `checklist_show` not found".to_owned()));
    let report = fixture.kernel.report();
    assert_eq!(report.loaded[0].tools, ["x"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_use_skills_of_new_build() {
    let agent = "id: guide\nname: Guide\ndepends_on: [a]\nagent: {uses_skills: [x]}\n";
    let home = home_with("a", "config: {skills: {x: Be kind.}}").manifest("guide", agent);
    let fixture = KernelFixture::boot(home).await;
    let request = TurnRequest { agent: Some("guide".into()), ..TurnRequest::default() };
    let prompt =
        async || fixture.kernel.agents().compose_turn(&request).await.unwrap().system_prompt;
    assert_eq!(prompt().await, format!("Be kind. ({OLD})"));
    install(&fixture, "a", "misbehave_next");
    // Both builds count their generations from 1.
    fixture.kernel.agents().reload("a").await.unwrap();
    assert_eq!(prompt().await, format!("Be kind. ({NEW})"));
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_requires_known_extension() {
    let fixture = KernelFixture::boot(home_with("alpha", "")).await;
    let error = fixture.kernel.agents().reload("alpa").await.unwrap_err();
    assert_eq!(
        (error.kind(), &*error.to_string()),
        (ErrorKind::NotFound, "extension `alpa` not found")
    );
    assert_eq!(error.hint(), "did you mean alpha?\nsee: skillhost ext list");
    fixture.kernel.shutdown().await;
}
