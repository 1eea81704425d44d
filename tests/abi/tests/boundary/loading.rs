//! The load of extensions: success, errors, remaining files.

use std::fs;

use serde_json::json;
use test_support::{TestHome, example_library, library};

use crate::fixture::{Gate, KernelFixture, SOON, home_with, misbehaving, patient};
use skillhost_core::KernelLimits;

#[tokio::test(flavor = "multi_thread")]
async fn extensions_of_one_library_are_distinct() {
    let home = misbehaving(TestHome::new(), "a", "");
    let home = misbehaving(home, "b", "config: {block: from b}")
        .manifest("c", "id: c\nname: c\nentrypoint: misbehave\n")
        .library("c", "misbehave", &example_library("misbehave_next"))
        .manifest("echo", "id: echo\nname: Echo\nentrypoint: echo\n")
        .library("echo", "echo", &library("echo"));
    let fixture = KernelFixture::boot(home).await;
    assert_eq!(fixture.loaded(), ["a", "b", "c", "echo"]);
    assert_eq!(fixture.build("a").await, "misbehave");
    assert_eq!(fixture.build("b").await, "misbehave");
    assert_eq!(fixture.build("c").await, "misbehave_next::misbehave");
    assert_eq!(fixture.done("echo", json!({"text": "hi"})).await, "hi");
    // State of one extension is not visible to the other.
    fixture.done("a", json!({"do": "learn", "id": "x", "text": "x"})).await;
    let report = fixture.kernel.report();
    let priorities: Vec<_> = report.loaded.iter().map(|l| l.context_priority).collect();
    assert_eq!(priorities, [Some(0), Some(0), Some(0), Some(200)]);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_extension_is_rejected_alone() {
    let cases = [
        ("new", "fail", "new: new failed\nhint: try less"),
        ("new", "panic", "new: the extension panicked: new panicked\nhint: "),
        ("new", "bomb", "new: the extension panicked: a panic without a message\nhint: "),
        ("start", "fail", "start: start failed\nhint: try less"),
        ("start", "panic", "start: the extension panicked: start panicked\nhint: "),
        ("start", "bomb", "start: the extension panicked: a panic without a message\nhint: "),
        ("tools", "panic", "wire: the extension panicked: tools panicked\nhint: "),
        ("priority", "panic", "wire: the extension panicked: priority panicked\nhint: "),
    ];
    let mut home = misbehaving(TestHome::new(), "well", "");
    for (place, act, _) in cases {
        let config = format!("config: {{parts: {{{place}: {act}}}}}");
        home = misbehaving(home, &format!("{place}-{act}"), &config);
    }
    let fixture = KernelFixture::boot(home).await;
    assert_eq!(fixture.loaded(), ["well"]);
    for (place, act, expected) in cases {
        assert_eq!(fixture.rejection(&format!("{place}-{act}")), expected);
    }
    assert_eq!(fixture.build("well").await, "misbehave");
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_config_names_its_position() {
    let rest = "config: {priority: high}\nsetup_instructions: Ask for a key.\n";
    let fixture = KernelFixture::boot(home_with("a", rest)).await;
    assert_eq!(
        fixture.rejection("a"),
        "new: config: invalid type: string \"high\", expected i32\n\
         hint: check `config` in the manifest and `extensions.a` in skillhost.yaml\n\
         setup: Ask for a key."
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_load_step_times_out() {
    let limits = KernelLimits { start: SOON, ..patient() };
    for (place, expected) in [
        ("start", "start: `a` timed out after 2000 ms\nhint: "),
        ("tools", "wire: `a` timed out after 2000 ms\nhint: "),
        (
            "new",
            "new: creation timed out after 2000 ms\nhint: move long work from `new` to `start` or the service",
        ),
    ] {
        let home = home_with("a", &format!("config: {{parts: {{{place}: hang}}}}"));
        let gate = Gate::open(&home);
        let boot = tokio::spawn(KernelFixture::boot_with(
            home,
            KernelLimits { stop: SOON, ..limits.clone() },
            true,
        ));
        let held = gate.reached(&format!("a {place}")).await;
        let fixture = boot.await.unwrap();
        assert_eq!(fixture.rejection("a"), expected);
        drop(held);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_has_one_owner() {
    let home = misbehaving(TestHome::new(), "a", "config: {tools: [shared, own]}");
    let home = misbehaving(home, "b", "config: {tools: [mine, shared]}");
    let fixture = KernelFixture::boot_with(home, patient(), false).await;
    assert_eq!(
        fixture.rejection("b"),
        "wire: the tool `shared` of `b` is already provided by `a`\n\
         hint: write into the manifest of `b`: tools: {prefix: b_}\n\
         or disable one of the two"
    );
    assert_eq!(fixture.build("shared").await, "misbehave");
    // None of the tools of the later one is available.
    let error = fixture.tool("mine", json!({"do": "build"})).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "tool `mine` is not available: its extension `b` was rejected in phase wire: the tool \
         `shared` of `b` is already provided by `a`"
    );
    // It was shut down, not just omitted.
    assert_eq!(fixture.record(), ["a new", "a start", "b new", "b start", "b stop", "b drop"]);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unofferable_tools_are_rejected() {
    let home = misbehaving(TestHome::new(), "a", "config: {tools: [one, one, two words]}");
    let home = misbehaving(home, "b", "config: {schema: text}");
    let fixture = KernelFixture::boot(home).await;
    assert_eq!(
        fixture.rejection("a"),
        "wire: the tool `one` is declared twice\n\
         the tool name \"two words\" is not 1 to 64 letters, digits, `_`, `-` or `.`\n\
         hint: correct what the extension's `tools` returns\n\
         write into the manifest of `a`: tools: {rename: {\"two words\": two_words}}"
    );
    assert_eq!(
        fixture.rejection("b"),
        "wire: the input schema of the tool `b` is not a JSON object\n\
         hint: correct what the extension's `tools` returns"
    );
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn library_copies_are_removed() {
    let home = misbehaving(TestHome::new(), "a", "");
    let home = misbehaving(home, "b", "config: {parts: {new: panic}}");
    let home = misbehaving(
        home,
        "c",
        "sha256: \"0000000000000000000000000000000000000000000000000000000000000000\"",
    )
    .manifest("d", "id: d\nname: d\nentrypoint: d\n")
    .library("d", "d", &example_library("non_plugin"));
    let fixture = KernelFixture::boot(home).await;
    assert_eq!(fixture.loaded(), ["a"]);
    fixture.kernel.agents().reload("a").await.unwrap();
    let left = fs::read_dir(fixture.home.path("sandbox/data/kernel")).unwrap();
    let left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    // The reload is an event, and events are kept there.
    let copies: Vec<_> = left.filter(|name| !name.starts_with("events.db")).collect();
    assert_eq!(copies, [""; 0]);
    assert_eq!(fixture.build("a").await, "misbehave");
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unwritable_home_still_loads_libraries() {
    // Not even the superuser, who may run the tests, can create a directory below a file.
    let fixture = KernelFixture::boot(home_with("a", "").file("sandbox/data", "in the way")).await;
    assert_eq!(fixture.build("a").await, "misbehave");
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn loaded_file_may_be_overwritten() {
    let fixture = KernelFixture::boot(home_with("a", "")).await;
    let path = fixture.kernel.report().loaded[0].library.clone();
    // In place, like a careless copy: writing to a mapped file would crash the process.
    fs::write(&path, vec![0; 64 * 1024]).unwrap();
    assert_eq!(fixture.build("a").await, "misbehave");
    fixture.kernel.shutdown().await;
}
