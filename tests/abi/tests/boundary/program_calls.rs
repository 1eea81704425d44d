//! Calls of tools in the name of a skill's program.

use serde_json::json;
use skillhost_payload::{CallContext, CallOrigin, ErrorKind};

use crate::fixture::{KernelFixture, home_with, misbehaving, operator};

const CONTEXT: &str = r#"{"do": "context"}"#;

fn of_program() -> CallContext {
    CallContext {
        agent_id: "reviewer".into(),
        session_id: "s-1".into(),
        call_chain: vec!["program yahoo-finance".into()],
        ..CallContext::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn program_has_tools_of_agent_and_skill() {
    let agent = "id: reviewer\nname: Reviewer\ndepends_on: [a]\nagent: {instructions: Review., uses_tools: [a]}\n";
    let home = misbehaving(home_with("a", ""), "b", "").manifest("reviewer", agent);
    let fixture = KernelFixture::boot(home).await;
    let agents = fixture.kernel.agents();
    let output = agents.invoke_for_program(of_program(), None, "a", CONTEXT).await.unwrap();
    let seen: CallContext = serde_json::from_str(output.structured.unwrap().get()).unwrap();
    assert_eq!(seen.call_chain, ["program yahoo-finance"]);
    let both = ["a".to_owned(), "b".to_owned()];
    agents.invoke_for_program(of_program(), Some(&both), "a", CONTEXT).await.unwrap();
    let cases: [(Option<&[String]>, &str, ErrorKind, &str); 4] = [
        (
            Some(&both[1..]),
            "a",
            ErrorKind::Denied,
            "tool `a` is not in the skill's `allowed-tools`",
        ),
        (Some(&[]), "a", ErrorKind::Denied, "tool `a` is not in the skill's `allowed-tools`"),
        // A skill does not get tools that its agent lacks.
        (Some(&both), "b", ErrorKind::Denied, "agent `reviewer` does not have tool `b`"),
        (None, "aa", ErrorKind::NotFound, "tool `aa` not found"),
    ];
    for (allowed, tool, kind, message) in cases {
        let called = agents.invoke_for_program(of_program(), allowed, tool, CONTEXT).await;
        let error = called.unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, message));
    }
    fixture.kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_of_program_does_not_approve_its_calls() {
    let home = misbehaving(home_with("a", "config: {approval: unless_granted}"), "b", "");
    let fixture = KernelFixture::boot(home).await;
    let agents = fixture.kernel.agents();
    assert!(agents.invoke_tool(operator(), "a", CONTEXT).await.is_ok());
    let error = agents.invoke_for_program(operator(), None, "a", CONTEXT).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    let expected = "tool `a` requires approval, but no approval channel is available";
    assert_eq!(error.to_string(), expected);
    // Without an agent every tool of agents is in reach.
    let output = agents.invoke_for_program(operator(), None, "b", CONTEXT).await.unwrap();
    let seen: CallContext = serde_json::from_str(output.structured.unwrap().get()).unwrap();
    assert_eq!(seen.origin, CallOrigin::Agent);
    let deed = json!({"do": "call", "tool": "b", "arguments": {"do": "context"}}).to_string();
    assert!(agents.invoke_for_program(of_program_without_agent(), None, "b", &deed).await.is_ok());
    fixture.kernel.shutdown().await;
}

fn of_program_without_agent() -> CallContext {
    CallContext { agent_id: String::new(), ..of_program() }
}
