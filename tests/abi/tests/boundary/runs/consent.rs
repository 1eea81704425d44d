//! Approvals: requests, decisions, and missing decisions.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use skillhost_conversation::{ApprovalDecision, ApprovalRequest};
use skillhost_payload::{CallContext, CallOrigin, ErrorKind};
use test_support::TestHome;

use super::stage::{Person, Stage, agent, answer, call, calls, failure, limits, saying, says};
use crate::fixture::{home_with, misbehaving, operator};

/// A worker whose only tool requires an approval.
fn asking(approval: &str) -> TestHome {
    agent(home_with("a", &format!("config: {{approval: {approval}}}")), "worker", "uses_tools: [a]")
}

fn refusal(reason: &str) -> ApprovalDecision {
    ApprovalDecision::Refuse { reason: reason.into() }
}

#[tokio::test(flavor = "multi_thread")]
async fn approval_request_contains_all_facts() {
    let script = vec![calls([saying("1", "a", "x")]), calls([saying("2", "a", "y")]), says("done")];
    let stage = Stage::set(asking("unless_granted"), vec![("worker", script)]).await;
    let (mut thread, person) =
        (stage.thread(), Person::saying([ApprovalDecision::Once, refusal("not that")]));
    let outcome = stage.say_as(&mut thread, "go", &person).await.unwrap();
    let asked = person.asked.lock().unwrap().clone();
    let keys: Vec<_> = asked.iter().map(|asked| asked.call_key.clone()).collect();
    assert!(keys[0].is_some() && keys[1].is_some() && keys[0] != keys[1], "{keys:?}");
    let request = |text: &str, key: &Option<String>| ApprovalRequest {
        agent_id: "worker".into(),
        tool: "a".into(),
        extension: "a".into(),
        arguments: json!({"do": "say", "text": text}).to_string(),
        destructive: false,
        always: false,
        details: None,
        call_key: key.clone(),
        effect_digest: None,
        extension_sha256: None,
        can_park: false,
    };
    assert_eq!(asked, [request("x", &keys[0]), request("y", &keys[1])]);
    assert_eq!(thread.messages()[2], answer("1", "a", "x"));
    let refused = "denied: call of `a` was not approved: not that\nhint: do not make the same call \
                   again; find another way or ask the user";
    assert_eq!(stage.last(), failure("2", "a", refused));
    let approvals: Vec<_> = stage
        .transcript(&outcome.run_id)
        .into_iter()
        .filter(|line| line["entry"] == "approval")
        .collect();
    assert_eq!(
        approvals,
        [
            json!({"entry": "approval", "tool": "a", "decision": "once"}),
            json!({"entry": "approval", "tool": "a",
                   "decision": {"refuse": {"reason": "not that"}}}),
        ]
    );
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn session_approval_lasts_for_thread() {
    let script = ["x", "y", "z"].map(|text| [calls([saying("1", "a", text)]), says(text)]);
    let script = script.into_iter().flatten().collect();
    let stage = Stage::set(asking("unless_granted"), vec![("worker", script)]).await;
    let mut thread = stage.thread();
    let person = Person::saying([ApprovalDecision::Session]);
    for prompt in ["one", "two"] {
        stage.say_as(&mut thread, prompt, &person).await.unwrap();
        assert!(matches!(
            &stage.last(),
            skillhost_conversation::Message::Tool { is_error: false, .. }
        ));
    }
    assert_eq!(person.asked.lock().unwrap().len(), 1);
    let person = Person::saying([refusal("")]);
    stage.say_as(&mut stage.thread(), "elsewhere", &person).await.unwrap();
    assert_eq!(person.asked.lock().unwrap().len(), 1);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn always_approval_ignores_session_approval() {
    let script = vec![calls([saying("1", "a", "x")]), calls([saying("2", "a", "y")]), says("done")];
    let stage = Stage::set(asking("always"), vec![("worker", script)]).await;
    let person = Person::saying([ApprovalDecision::Session, refusal("")]);
    stage.say_as(&mut stage.thread(), "go", &person).await.unwrap();
    let asked: Vec<_> = person.asked.lock().unwrap().iter().map(|asked| asked.always).collect();
    assert_eq!(asked, [true, true]);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn late_approval_counts_as_denial() {
    let script = vec![calls([saying("1", "a", "x")]), says("done")];
    let limits = limits(Duration::from_millis(1));
    let home = asking("always");
    let stage = Stage::set_with(home, vec![("worker", script)], limits, None).await;
    let person = Arc::new(Person::default());
    stage.say_as(&mut stage.thread(), "go", &person).await.unwrap();
    let refused = "denied: call of `a` was not approved: approval timed out after 1 ms\nhint: do not \
                   make the same call again; find another way or ask the user";
    assert_eq!(stage.last(), failure("1", "a", refused));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_calls_share_one_approval() {
    let both = calls([saying("1", "a", "x"), saying("2", "a", "y")]);
    let script = vec![both, says("done")];
    let stage = Stage::set(asking("unless_granted"), vec![("worker", script)]).await;
    let (mut thread, person) = (stage.thread(), Person::saying([ApprovalDecision::Session]));
    stage.say_as(&mut thread, "go", &person).await.unwrap();
    assert_eq!(thread.messages()[2..4], [answer("1", "a", "x"), answer("2", "a", "y")]);
    assert_eq!(person.asked.lock().unwrap().len(), 1);
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_tool_call_requires_approval() {
    let home = misbehaving(home_with("a", "config: {approval: always}"), "b", "");
    let home = agent(home, "worker", "uses_tools: [b]");
    let through = call(
        "1",
        "b",
        &json!({
            "do": "call", "tool": "a", "arguments": {"do": "say", "text": "x"}
        }),
    );
    let script = vec![calls([through.clone()]), calls([through]), says("done")];
    let stage = Stage::set(home, vec![("worker", script)]).await;
    let (mut thread, person) =
        (stage.thread(), Person::saying([refusal("no"), ApprovalDecision::Once]));
    stage.say_as(&mut thread, "go", &person).await.unwrap();
    let asked: Vec<_> = person.asked.lock().unwrap().iter().map(|a| a.tool.clone()).collect();
    assert_eq!(asked, ["a", "a"]);
    let refused = "denied: call of `a` was not approved: no\nhint: do not make the same call again; \
                   find another way or ask the user";
    assert_eq!(thread.messages()[2], failure("1", "b", refused));
    assert_eq!(thread.messages()[4], answer("1", "b", "x"));
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn approval_requires_run_or_operator() {
    for approval in ["always", "unless_granted"] {
        let stage = Stage::set(asking(approval), Vec::new()).await;
        let call = |origin| {
            let context =
                CallContext { origin, session_id: "session".into(), ..CallContext::default() };
            stage.fixture.kernel.agents().invoke_tool(context, "a", r#"{"do": "say", "text": "x"}"#)
        };
        for origin in [CallOrigin::Agent, CallOrigin::Mcp] {
            let error = call(origin).await.unwrap_err();
            assert_eq!(
                (error.kind(), error.to_string(), error.hint()),
                (
                    ErrorKind::Denied,
                    "tool `a` requires approval, but no approval channel is available".into(),
                    "approve it in `skillhost chat`, or run: skillhost tool call a".into()
                )
            );
        }
        assert_eq!(call(CallOrigin::Operator).await.unwrap().text, "x");
        assert_eq!(operator().origin, CallOrigin::Operator);
        stage.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn guessed_session_grants_no_approval() {
    // The client calls while the run with the approval is active.
    let through = call("1", "b", &json!({"do": "await", "topic": "go"}));
    let script = vec![calls([saying("0", "a", "x")]), calls([through]), says("done")];
    let home = misbehaving(home_with("a", "config: {approval: unless_granted}"), "b", "");
    let home = agent(home, "worker", "uses_tools: [a, b]");
    let gate = crate::fixture::Gate::open(&home);
    let stage = Stage::set(home, vec![("worker", script)]).await;
    let (mut thread, person) = (stage.thread(), Person::saying([ApprovalDecision::Session]));
    let context = CallContext {
        origin: CallOrigin::Mcp,
        agent_id: "worker".into(),
        session_id: thread.id().to_owned(),
        ..CallContext::default()
    };
    let client = async {
        drop(gate.reached("b b").await);
        let error =
            stage.fixture.kernel.agents().invoke_tool(context, "a", "{}").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        stage.fixture.done("b", json!({"do": "emit", "topic": "go", "payload": 1})).await;
    };
    let (outcome, ()) = tokio::join!(stage.say_as(&mut thread, "go", &person), client);
    assert_eq!(outcome.unwrap().text, "done");
    assert_eq!(person.asked.lock().unwrap().len(), 1);
    stage.end().await;
}
