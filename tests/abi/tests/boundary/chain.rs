//! The context chain: order, limits, skipped providers.

use skillhost_agents::TurnRequest;
use skillhost_core::{ContextBlock, ContextOutcome, KernelError, KernelLimits};
use skillhost_payload::ErrorKind;
use test_support::{STUCK_AFTER, TestHome};

use crate::fixture::{Gate, KernelFixture, SOON, misbehaving, patient};

const AGENT: &str = "id: guide\nname: Guide\nagent: {instructions: You are a guide.}\n";

fn ask(prompt: &str) -> TurnRequest {
    TurnRequest { agent: Some("guide".into()), prompt: prompt.into(), ..TurnRequest::default() }
}

fn home() -> TestHome {
    TestHome::new().manifest("guide", AGENT)
}

/// Returns the contribution of each provider, errors as kind and message.
fn outcomes(blocks: &[ContextBlock]) -> Vec<(&str, i32, String)> {
    let outcome = |block: &ContextBlock| match &block.outcome {
        ContextOutcome::Text(text) => text.clone(),
        ContextOutcome::Nothing => "nothing".to_owned(),
        ContextOutcome::Skipped(error) => format!("{}: {error}", error.kind.as_str()),
    };
    blocks.iter().map(|b| (b.extension.as_str(), b.priority, outcome(b))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_follow_priority_then_id() {
    let home = misbehaving(home(), "a", "config: {priority: 100, block: memory}");
    let home = misbehaving(home, "b", "config: {priority: -5, block: 'you said {prompt}'}");
    let home = misbehaving(home, "c", "config: {priority: 60}");
    let home = misbehaving(home, "d", "config: {priority: 60, block: '  '}");
    let fixture =
        KernelFixture::boot(misbehaving(home, "e", "config: {priority: 60, block: catalog}")).await;
    let turn = fixture.kernel.agents().compose_turn(&ask("hello\n\"world\"")).await.unwrap();
    let text = str::to_owned;
    assert_eq!(
        outcomes(&turn.blocks),
        [
            ("b", -5, text("you said hello\n\"world\"")),
            ("c", 60, text("nothing")),
            ("d", 60, text("nothing")),
            ("e", 60, text("catalog")),
            ("a", 100, text("memory")),
        ]
    );
    assert_eq!(
        turn.system_prompt,
        "You are a guide.\n\n---\n\nyou said hello\n\"world\"\n\n---\n\ncatalog\n\n---\n\nmemory"
    );
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ready_block_panic_is_contained() {
    let home = misbehaving(home(), "panics", "config: {priority: 1, parts: {ready: panic}}");
    let home =
        misbehaving(home, "fails", "config: {priority: 2, block: asked, parts: {ready: fail}}");
    let fixture = KernelFixture::boot(home).await;
    for _ in 0..2 {
        let turn = fixture.kernel.agents().compose_turn(&ask("hello")).await.unwrap();
        assert_eq!(
            outcomes(&turn.blocks),
            [
                ("panics", 1, "panicked: the extension panicked: ready panicked".to_owned()),
                ("fails", 2, "asked".to_owned()),
            ]
        );
    }
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_provider_is_skipped_with_reason() {
    let home = misbehaving(home(), "fails", "config: {priority: 1, parts: {context: fail}}");
    let home = misbehaving(home, "panics", "config: {priority: 2, parts: {context: panic}}");
    let home = misbehaving(home, "hangs", "config: {priority: 3, parts: {context: hang}}");
    let home = misbehaving(home, "works", "config: {priority: 4, block: here}");
    let gate = Gate::open(&home);
    let limits = KernelLimits { context: SOON, ..patient() };
    let fixture = KernelFixture::boot_with(home, limits, false).await;
    let request = ask("hello");
    let (turn, held) =
        tokio::join!(fixture.kernel.agents().compose_turn(&request), gate.reached("hangs context"));
    let turn = turn.unwrap();
    assert_eq!(
        outcomes(&turn.blocks),
        [
            ("fails", 1, "failed: context failed".to_owned()),
            ("panics", 2, "panicked: the extension panicked: context panicked".to_owned()),
            ("hangs", 3, "timeout: `hangs` timed out after 2000 ms".to_owned()),
            ("works", 4, "here".to_owned()),
        ]
    );
    assert_eq!(turn.system_prompt, "You are a guide.\n\n---\n\nhere");
    held.given_up().await;
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_agent_names_similar_ones() {
    let fixture = KernelFixture::boot(home()).await;
    let request = TurnRequest { agent: Some("guid".into()), ..TurnRequest::default() };
    let error: KernelError = fixture.kernel.agents().compose_turn(&request).await.unwrap_err();
    assert_eq!(
        (error.kind(), &*error.to_string()),
        (ErrorKind::NotFound, "agent `guid` not found")
    );
    assert_eq!(error.hint(), "did you mean guide?\nsee: skillhost agent list");
}

/// Requests blocks until a provider replies again.
async fn answered_again(fixture: &KernelFixture) -> Vec<(i32, String)> {
    let asking = async {
        loop {
            let turn = fixture
                .kernel
                .agents()
                .compose_turn(&ask("hello"))
                .await
                .expect("the agent is ready");
            let blocks = outcomes(&turn.blocks);
            if blocks.iter().all(|(_, _, text)| !text.contains("has not returned")) {
                return blocks.into_iter().map(|(_, priority, text)| (priority, text)).collect();
            }
        }
    };
    tokio::time::timeout(STUCK_AFTER, asking).await.expect("the provider is let go")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocking_provider_is_skipped_at_once() {
    let home = misbehaving(home(), "blocks", "config: {priority: 1, parts: {ready: block}}");
    let home = misbehaving(home, "works", "config: {priority: 2, block: here}");
    let gate = Gate::open(&home);
    let fixture =
        KernelFixture::boot_with(home, KernelLimits { context: SOON, ..patient() }, false).await;
    let request = ask("hello");
    let (turn, held) =
        tokio::join!(fixture.kernel.agents().compose_turn(&request), gate.reached("blocks ready"));
    let text = |text: &str| text.to_owned();
    let works = ("works", 2, text("here"));
    assert_eq!(
        outcomes(&turn.unwrap().blocks),
        [("blocks", 1, text("timeout: `blocks` timed out after 2000 ms")), works.clone()]
    );
    // The kernel does not wait for it a second time.
    let turn = fixture.kernel.agents().compose_turn(&request).await.unwrap();
    let refused = text("unavailable: `blocks` has not returned from an earlier request");
    assert_eq!(outcomes(&turn.blocks), [("blocks", 1, refused), works]);
    fixture
        .done("blocks", serde_json::json!({"do": "become", "place": "ready", "act": "fail"}))
        .await;
    drop(held);
    assert_eq!(answered_again(&fixture).await, [(1, text("nothing")), (2, text("here"))]);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_blocking_provider_is_skipped() {
    let home = misbehaving(home(), "blocks", "config: {priority: 1, block: asked}");
    let home = misbehaving(home, "works", "config: {priority: 2, block: here}");
    let gate = Gate::open(&home);
    let fixture =
        KernelFixture::boot_with(home, KernelLimits { context: SOON, ..patient() }, false).await;
    // It was quick once, so it is called on the thread of the turn from here on.
    for _ in 0..3 {
        fixture.kernel.agents().compose_turn(&ask("hello")).await.unwrap();
    }
    fixture
        .done("blocks", serde_json::json!({"do": "become", "place": "ready", "act": "block"}))
        .await;
    let request = ask("hello");
    let (turn, held) =
        tokio::join!(fixture.kernel.agents().compose_turn(&request), gate.reached("blocks ready"));
    let late = "timeout: `blocks` timed out after 2000 ms".to_owned();
    assert_eq!(
        outcomes(&turn.unwrap().blocks),
        [("blocks", 1, late), ("works", 2, "here".to_owned())]
    );
    // Its other operations still work.
    assert_eq!(fixture.build("blocks").await, "misbehave");
    drop(held);
    fixture.kernel.shutdown().await;
}
