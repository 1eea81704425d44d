//! Tests of `skillhost mcp`: a client asks its user about a proposal.

use serde_json::{Value, json};
use test_support::TestHome;

use crate::fixtures::{home, skill_md};
use crate::mcp_client::{Client, VERSION};

/// Returns the metadata that every request of the newest version has.
fn request_meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test client", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

/// Proposes a change through a client and answers the elicitation, if there is one.
fn propose_change(client: &mut Client, answer: &Value) -> (Option<Value>, String) {
    let id = client.send_request(
        "tools/call",
        json!({
            "name": "propose_skill_update",
            "arguments": {
                "skill_id": "greet", "justification": "Politer.",
                "new_content": skill_md("Greets people. Use when somebody arrives.", "Bow first."),
            },
        }),
    );
    let question = (!answer.is_null()).then(|| client.notification("elicitation/create"));
    if let Some(question) = &question {
        client.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer }));
    }
    let made = client.response(id);
    assert_eq!(made["result"]["isError"], false, "{made}");
    let text = made["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    (question, text)
}

#[test]
fn elicitation_requires_setting() {
    let form = json!({ "elicitation": {} });
    let approve = json!({ "action": "accept", "content": { "decision": "approve" } });
    let skill_of = |home: &TestHome| {
        std::fs::read_to_string(home.path("sandbox/skills/greet/SKILL.md")).unwrap()
    };
    // Without the setting or the capability, the proposal waits for the operator.
    for (settings, capabilities) in
        [("{}", &form), ("mcp: {review: off}", &form), ("mcp: {review: elicitation}", &json!({}))]
    {
        let home = home().settings(settings);
        let mut client = Client::spawn(home.command().arg("mcp"));
        client.initialize(VERSION, capabilities);
        let (_, text) = propose_change(&mut client, &Value::Null);
        assert!(text.contains("Nothing is changed") && !text.contains("A person"), "{text}");
        assert!(client.unread_methods().is_empty(), "{:?}", client.unread_methods());
        assert!(!skill_of(&home).contains("Bow"));
    }
    let on = || home().settings("mcp: {review: elicitation}");
    let home = on();
    let mut client = Client::spawn(home.command().arg("mcp"));
    client.initialize(VERSION, &form);
    let (question, text) = propose_change(&mut client, &approve);
    let prompt = question.unwrap()["params"]["message"].as_str().unwrap().to_owned();
    assert!(prompt.contains("Why: Politer."), "{prompt}");
    assert!(prompt.contains("\n-Say hello to them.\n+Bow first."), "{prompt}");
    assert!(text.contains("A person approved it"), "{text}");
    // The proposal is decided.
    assert!(!text.contains("Nothing is changed") && !text.contains("decides"), "{text}");
    assert!(skill_of(&home).contains("Bow first."));
    let read = client.call("read_skill", json!({ "skill_id": "greet" })).to_string();
    assert!(read.contains("Bow first."), "{read}");
    let log = home.skillhost(["skill", "audit-log", "--json"]).success().stdout;
    assert!(log.contains("mcp:test-client") && log.contains("\"mcp\""), "{log}");
    for answer in [
        json!({ "action": "decline" }),
        json!({ "action": "cancel" }),
        json!({ "action": "accept", "content": {} }),
        json!({ "action": "accept", "content": { "decision": "reject", "reason": "No." } }),
    ] {
        let home = on();
        let mut client = Client::spawn(home.command().arg("mcp"));
        client.initialize(VERSION, &form);
        propose_change(&mut client, &answer);
        assert!(!skill_of(&home).contains("Bow"), "{answer}");
    }
}

/// Returns a call of the newest version that proposes a change.
fn proposal_call(capabilities: &Value, body: &str) -> Value {
    let text = skill_md("Greets people. Use when somebody arrives.", body);
    json!({
        "_meta": request_meta(capabilities), "name": "propose_skill_update",
        "arguments": { "skill_id": "greet", "justification": "Politer.", "new_content": text },
    })
}

#[test]
fn newest_version_carries_elicitation() {
    let home = home().settings("mcp: {review: elicitation}");
    let text = || std::fs::read_to_string(home.path("sandbox/skills/greet/SKILL.md")).unwrap();
    let mut client = Client::spawn(home.command().arg("mcp"));
    // A client without forms receives no elicitation.
    for capabilities in [json!({}), json!({ "elicitation": { "url": {} } })] {
        let made = client.result("tools/call", proposal_call(&capabilities, "Bow."));
        assert_eq!(made["resultType"], "complete", "{made}");
    }
    let form = json!({ "elicitation": { "form": {} } });
    let call = proposal_call(&form, "Bow first.");
    let elicitation = client.result("tools/call", &call);
    assert_eq!(elicitation["resultType"], "input_required", "{elicitation}");
    let question = &elicitation["inputRequests"]["review"];
    assert_eq!(question["method"], "elicitation/create");
    let prompt = question["params"]["message"].as_str().unwrap();
    assert!(prompt.contains("\n-Say hello to them.\n+Bow first."), "{prompt}");
    let retry = |call: &Value, state: &Value, answer: Value| {
        let mut call = call.clone();
        call["requestState"] = state.clone();
        call["inputResponses"] = json!({ "review": answer });
        call
    };
    let approve = json!({ "action": "accept", "content": { "decision": "approve" } });
    let state = &elicitation["requestState"];
    // Neither a guessed state nor another call is accepted.
    for call in [
        retry(&call, &json!("01ARZ3NDEKTSV4RRFFQ69G5FAV"), approve.clone()),
        retry(&proposal_call(&form, "Bow twice."), state, approve.clone()),
    ] {
        assert_eq!(client.expect_error("tools/call", call).0, -32602);
    }
    assert!(!text().contains("Bow"));
    let done = client.result("tools/call", retry(&call, state, approve.clone()));
    let value = &done["structuredContent"];
    // The proposal was not repeated.
    assert_eq!((&value["number"], &value["count"]), (&json!(2), &json!(1)));
    assert!(value["review"].as_str().unwrap().starts_with("A person approved it"), "{value}");
    assert_eq!((&value["state"], &value["next"]), (&json!("applied"), &value["review"]));
    let result = done["content"][0]["text"].as_str().unwrap();
    assert!(!result.contains("Nothing is changed") && !result.contains("open"), "{result}");
    assert!(text().contains("Bow first."));
    // An answer is accepted only once.
    assert_eq!(client.expect_error("tools/call", retry(&call, state, approve)).0, -32602);
    let decline = json!({ "action": "decline" });
    let call = proposal_call(&form, "Kneel.");
    let elicitation = client.result("tools/call", &call);
    let done = client.result("tools/call", retry(&call, &elicitation["requestState"], decline));
    assert_eq!(done["structuredContent"].get("review"), None, "{done}");
    assert!(!text().contains("Kneel"));
}
