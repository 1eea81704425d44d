//! The registry's search with a working embedding model, and with failing ones.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use test_support::{TestHome, library};

use crate::fixture::{Gate, KernelFixture, misbehaving};

/// The shipped registry, configured to treat one skill as many, and a model with this `config`.
fn home(config: &str) -> TestHome {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/skill_registry/manifest.yaml");
    let text = std::fs::read_to_string(path).expect("it ships");
    let home = misbehaving(TestHome::new(), "embedding", &format!("config: {config}"));
    home.manifest("skill_registry", &text)
        .library("skill_registry", "skill_registry", &library("skill_registry"))
        .settings("extensions: {skill_registry: {search_embeddings: auto, l1_full_limit: 0}}")
        .skill("tea", "---\ndescription: Brews tea.\n---\nBoil water.\n")
}

async fn search(fixture: &KernelFixture, query: &str) -> String {
    let arguments = json!({ "query": query }).to_string();
    let output =
        fixture.kernel.agents().invoke_tool(Default::default(), "list_skills", &arguments).await;
    output.expect("a search never fails").text
}

/// Returns the registry's health error.
async fn health(fixture: &KernelFixture) -> Option<String> {
    let health = fixture.kernel.extensions().check_health().await;
    let (_, reported) = health.into_iter().find(|(id, _)| *id == "skill_registry").expect("loaded");
    reported.err().map(|error| error.to_string())
}

/// The registry's message about a slow model, which any model may be on a slow machine.
const TOO_LONG: &str = "embedding by 'embedding' timed out after 200 ms";

/// Repeats a check until it succeeds, longer than the pause after a model's timeout. The test fails
/// if it never does.
async fn until(what: impl AsyncFn() -> bool) {
    let asked = async { while !what().await {} };
    tokio::time::timeout(Duration::from_secs(200), asked).await.expect("it comes true");
}

/// The reply of a search without results: no skill contains the words of this query.
const NOTHING: &str = "None of the 1 skills matches.";

async fn meaning_counts(fixture: &KernelFixture) -> bool {
    search(fixture, "zebra").await != NOTHING
}

#[tokio::test(flavor = "multi_thread")]
async fn model_joins_after_indexing() {
    let fixture = KernelFixture::boot(home("{}")).await;
    until(async || meaning_counts(&fixture).await).await;
    let found = search(&fixture, "zebra").await;
    assert!(found.contains("• `tea` — Brews tea."), "{found}");
    assert_eq!(health(&fixture).await, None);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_model_leaves_word_search() {
    for (act, reported) in [
        ("panic", "the extension panicked: embed panicked"),
        ("fail", "embed failed"),
        ("hang", TOO_LONG),
    ] {
        let home = home("{}");
        let _gate = Gate::open(&home);
        let fixture = KernelFixture::boot(home).await;
        until(async || meaning_counts(&fixture).await).await;
        let become_ = json!({"do": "become", "place": "embed", "act": act});
        fixture.done("embedding", become_).await;
        assert_eq!(search(&fixture, "zebra").await, NOTHING, "{act}");
        assert!(search(&fixture, "brew").await.contains("• `tea`"), "{act}");
        // A search without any time left has no note about the model.
        let seen = RefCell::new(None);
        until(async || {
            search(&fixture, "zebra").await;
            let found = health(&fixture).await;
            let is_unhealthy = found.is_some();
            *seen.borrow_mut() = found;
            is_unhealthy
        })
        .await;
        let health = seen.take().unwrap();
        let reason = health.strip_prefix("skills are searched by their words alone: ");
        assert!(reason == Some(reported) || reason == Some(TOO_LONG), "{act}: {health}");
        fixture.kernel.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn model_without_valid_vectors_is_ignored() {
    let cases = [
        ("{vectors: longer}", "expected vectors of 2 components, received 3"),
        ("{vectors: not_a_number}", "received a vector with a component that is not finite"),
        ("{vectors: nameless}", "model '' with 2 components is not valid"),
        ("{parts: {embed: panic}}", "the extension panicked: embed panicked"),
    ];
    for (config, reported) in cases {
        let fixture = KernelFixture::boot(home(config)).await;
        until(async || health(&fixture).await.is_some()).await;
        let words_alone = format!("skills are searched by their words alone: {reported}");
        assert_eq!(health(&fixture).await, Some(words_alone));
        assert_eq!(search(&fixture, "zebra").await, NOTHING);
        assert!(search(&fixture, "brew").await.contains("• `tea`"));
        fixture.kernel.shutdown().await;
    }
}
