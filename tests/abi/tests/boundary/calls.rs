//! Tool calls: arguments, results, containment of errors.

use serde_json::json;
use skillhost_agents::TurnRequest;
use skillhost_core::{KernelError, KernelLimits};
use skillhost_payload::{CallContext, CallOrigin, CatalogScope, ErrorKind, SkillRef};
use test_support::TestHome;

use crate::fixture::{Gate, KernelFixture, SOON, home_with, misbehaving, operator, patient};

#[tokio::test(flavor = "multi_thread")]
async fn extension_survives_ten_thousand_panics() {
    let fixture = KernelFixture::boot(misbehaving(home_with("a", ""), "b", "")).await;
    let panic = json!({"do": "act", "act": "panic"});
    let bomb = json!({"do": "act", "act": "bomb"});
    for round in 0..5_000 {
        let expected = "the extension panicked: a panicked".to_owned();
        assert_eq!(
            fixture.fault("a", panic.clone()).await,
            (ErrorKind::Panicked, expected),
            "{round}"
        );
        let expected = "the extension panicked: a panic without a message".to_owned();
        assert_eq!(
            fixture.fault("a", bomb.clone()).await,
            (ErrorKind::Panicked, expected),
            "{round}"
        );
    }
    assert_eq!(fixture.build("a").await, "misbehave");
    assert_eq!(fixture.build("b").await, "misbehave");
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn task_panic_stays_in_extension() {
    let fixture = KernelFixture::boot(home_with("a", "")).await;
    let ended = fixture.done("a", json!({"do": "spawn"})).await;
    assert!(ended.contains("panicked with message \"nobody waits for this task\""), "{ended}");
    assert_eq!(fixture.build("a").await, "misbehave");
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_error_keeps_kind_and_hint() {
    let fixture = KernelFixture::boot(home_with("a", "")).await;
    let call =
        |arguments: &'static str| fixture.kernel.agents().invoke_tool(operator(), "a", arguments);
    let error = |error: KernelError| (error.kind(), error.to_string(), error.hint());
    let triple = |kind, message: &str, hint: &str| (kind, message.to_owned(), hint.to_owned());

    let failed = call(r#"{"do": "act", "act": "fail"}"#).await.unwrap_err();
    assert_eq!(error(failed), triple(ErrorKind::Failed, "a failed", "try less"));

    let unreadable = call(r#"{"do": "bad_answer"}"#).await.unwrap_err();
    assert_eq!(error(unreadable), triple(ErrorKind::Protocol, "key must be a string", ""));

    let schema = "see the tool's input schema: skillhost tool list --json";
    let missing = call(r#"{"do": "emit"}"#).await.unwrap_err();
    assert_eq!(
        error(missing),
        triple(ErrorKind::InvalidArgument, "arguments: missing field `topic`", schema)
    );

    let unknown = fixture.kernel.agents().invoke_tool(operator(), "aa", "{}").await.unwrap_err();
    assert_eq!(
        error(unknown),
        triple(
            ErrorKind::NotFound,
            "tool `aa` not found",
            "did you mean a?\nsee: skillhost tool list"
        )
    );
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_context_arrives_complete() {
    let fixture = KernelFixture::boot(home_with("a", "")).await;
    let sent = CallContext {
        agent_id: "reviewer".into(),
        session_id: "s-1".into(),
        turn_id: "t-2".into(),
        call_id: 0,
        deadline_ms: Some(59_999),
        context_window: Some(200_000),
        uses_skills: vec!["code-review".into(), "é".into()],
        catalog: CatalogScope::Globs { include: vec!["code-*".into()], exclude: vec!["x".into()] },
        origin: CallOrigin::Mcp,
        correlation_id: Some("message-7".into()),
        approved_effect: None,
        workspaces: Vec::new(),
        active_skills: Vec::new(),
        call_chain: Vec::new(),
        operator_policy: None,
        reads_files: false,
        idempotency_key: Some("k".into()),
        call_number: None,
        input: None,
    };
    // Only the kernel states what an approval covers and which skills are active.
    let skill = SkillRef { skill_id: "x".into(), digest: "d".into(), tree: None };
    let forged = CallContext {
        approved_effect: Some("d".into()),
        active_skills: vec![skill],
        reads_files: true,
        ..sent.clone()
    };
    let output =
        fixture.kernel.agents().invoke_tool(forged, "a", r#"{"do": "context"}"#).await.unwrap();
    assert_eq!(output.text, "a");
    let seen: CallContext = serde_json::from_str(output.structured.unwrap().get()).unwrap();
    // The kernel assigns the numbers of calls.
    assert_ne!(seen.call_id, 0);
    assert_eq!(seen, CallContext { call_id: seen.call_id, ..sent });

    // Without a deadline the kernel's own limit applies.
    let output =
        fixture.kernel.agents().invoke_tool(operator(), "a", r#"{"do": "context"}"#).await.unwrap();
    let next: CallContext = serde_json::from_str(output.structured.unwrap().get()).unwrap();
    let call_id = next.call_id;
    assert!(call_id > seen.call_id);
    let expected = CallContext { call_id, deadline_ms: Some(60_000), ..operator() };
    assert_eq!(next, CallContext { reads_files: true, ..expected }, "a person has a shell");
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn turn_identifies_agent_to_extensions() {
    let agent = "id: reviewer\nname: Reviewer\ndepends_on: [a]\nagent: {uses_skills: [x], \
                 uses_tools: [a], catalog: {include: [code-*]}}\n";
    let home = home_with("a", "config: {block: '{context}', skills: {x: Be kind.}}")
        .manifest("reviewer", agent);
    let fixture = KernelFixture::boot(home).await;
    let request = TurnRequest {
        agent: Some("reviewer".into()),
        prompt: "hello".into(),
        session_id: Some("s-1".into()),
        context_window: Some(8_000),
        origin: CallOrigin::Agent,
        correlation_id: Some("m-1".into()),
        workspaces: None,
        channel_block: None,
    };
    let turn = fixture.kernel.agents().compose_turn(&request).await.unwrap();
    let (instructions, block) = turn.system_prompt.split_once("\n\n---\n\n").unwrap();
    assert_eq!(instructions, "Be kind. (misbehave)");
    let seen: CallContext = serde_json::from_str(block).unwrap();
    let expected = CallContext {
        agent_id: "reviewer".into(),
        session_id: "s-1".into(),
        turn_id: turn.context.turn_id.clone(),
        call_id: seen.call_id,
        deadline_ms: Some(60_000),
        context_window: Some(8_000),
        uses_skills: vec!["x".into()],
        catalog: CatalogScope::Globs { include: vec!["code-*".into()], exclude: vec![] },
        origin: CallOrigin::Agent,
        correlation_id: Some("m-1".into()),
        approved_effect: None,
        workspaces: Vec::new(),
        active_skills: Vec::new(),
        call_chain: Vec::new(),
        operator_policy: None,
        reads_files: false,
        idempotency_key: None,
        call_number: None,
        input: None,
    };
    assert_eq!(seen, expected);
    // A tool that the model calls in this turn receives the same caller, and so does a nested one.
    let deed = json!({"do": "call", "tool": "a", "arguments": {"do": "context"}}).to_string();
    // The key is that of the outer call alone.
    let keyed = CallContext { idempotency_key: Some("k".into()), ..turn.context };
    let output = fixture.kernel.agents().invoke_tool(keyed, "a", &deed).await.unwrap();
    let below: CallContext = serde_json::from_str(output.structured.unwrap().get()).unwrap();
    assert_eq!(below, CallContext { call_id: below.call_id, ..expected });
    assert!(below.call_id > seen.call_id);
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_call_is_dropped_in_extension() {
    let home = home_with("a", "");
    let gate = Gate::open(&home);
    let fixture = KernelFixture::boot(home).await;
    let limited = CallContext { deadline_ms: Some(2_000), ..operator() };
    let call = fixture.kernel.agents().invoke_tool(limited, "a", r#"{"do": "act", "act": "hang"}"#);
    let (answer, held) = tokio::join!(call, gate.reached("a a"));
    let error = answer.unwrap_err();
    assert_eq!(
        (error.kind(), &*error.to_string()),
        (ErrorKind::Timeout, "`a` timed out after 2000 ms")
    );
    held.given_up().await;
    assert_eq!(fixture.build("a").await, "misbehave");
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn abandoned_call_is_dropped() {
    let home = misbehaving(home_with("a", ""), "b", "");
    let gate = Gate::open(&home);
    let fixture = KernelFixture::boot(home).await;
    // Through two extensions: a's call of b's tool is dropped together with a's own.
    let deed = json!({"do": "call", "tool": "b", "arguments": {"do": "act", "act": "hang"}});
    let kernel = fixture.kernel.clone();
    let call = tokio::spawn(async move {
        kernel.agents().invoke_tool(operator(), "a", &deed.to_string()).await
    });
    let held = gate.reached("b b").await;
    call.abort();
    held.given_up().await;
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blocking_extension_delays_no_other() {
    let home = misbehaving(home_with("a", ""), "b", "config: {block: I am b.}");
    let gate = Gate::open(&home);
    // Short, because only the blocked extension reaches it.
    let limits = KernelLimits { stop: SOON, drain: SOON, ..patient() };
    let fixture = KernelFixture::boot_with(home, limits, false).await;
    // Both threads of its runtime, and more calls than threads.
    let mut blocked = Vec::new();
    let mut calls = Vec::new();
    for call in 0..4 {
        let kernel = fixture.kernel.clone();
        let context = CallContext { deadline_ms: Some(20_000), ..operator() };
        calls.push(tokio::spawn(async move {
            kernel.agents().invoke_tool(context, "a", r#"{"do": "act", "act": "block"}"#).await
        }));
        if call < 2 {
            blocked.push(gate.reached("a a").await);
        }
    }
    for _ in 0..100 {
        assert_eq!(fixture.build("b").await, "misbehave");
    }
    // Its own call ends, too: the kernel enforces the limit, not the extension.
    let hurried = CallContext { deadline_ms: Some(300), ..operator() };
    let error =
        fixture.kernel.agents().invoke_tool(hurried, "a", r#"{"do": "build"}"#).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    // The shutdown takes only its limits, although the threads never return.
    calls.into_iter().for_each(|call| call.abort());
    fixture.kernel.shutdown().await;
    drop(blocked);
}

#[tokio::test(flavor = "multi_thread")]
async fn unlisted_tools_hide_no_others() {
    let home = misbehaving(TestHome::new(), "a", "config: {tools: [x, y]}");
    let fixture = KernelFixture::boot(misbehaving(home, "b", "")).await;
    let list = async || {
        let (tools, failures) = fixture.kernel.agents().list_tools(None).await.unwrap();
        let names = tools.iter().map(|tool| format!("{} of {}", tool.spec.name, tool.extension));
        let failures = failures.iter().map(|(id, error)| format!("{id}: {error}"));
        (names.collect::<Vec<_>>(), failures.collect::<Vec<_>>())
    };
    let all = ["b of b", "x of a", "y of a"].map(str::to_owned);
    assert_eq!(list().await, (all.to_vec(), vec![]));
    fixture.done("x", json!({"do": "become", "place": "tools", "act": "panic"})).await;
    let panicked = "a: the extension panicked: tools panicked".to_owned();
    assert_eq!(list().await, (vec!["b of b".to_owned()], vec![panicked]));
    // An unlisted tool is still callable.
    assert_eq!(fixture.build("x").await, "misbehave");
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_tool_is_hidden_from_models() {
    let home = home_with("a", "config: {operator_only: true}")
        .manifest("guide", "id: guide\nname: Guide\nagent: {uses_tools: [a]}\n");
    let fixture = KernelFixture::boot(misbehaving(home, "ab", "")).await;
    assert_eq!(fixture.build("a").await, "misbehave");
    let (listed, _) = fixture.kernel.agents().list_tools(Some("guide")).await.unwrap();
    assert_eq!(listed.len(), 0);
    for origin in [CallOrigin::Agent, CallOrigin::Mcp] {
        let model = CallContext { origin, ..CallContext::default() };
        let error = fixture
            .kernel
            .agents()
            .invoke_tool(model, "a", r#"{"do": "build"}"#)
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), &*error.to_string()),
            (ErrorKind::NotFound, "tool `a` not found")
        );
        assert_eq!(error.hint(), "did you mean ab?\nsee: skillhost tool list");
    }
    fixture.kernel.shutdown().await;
}
