//! `skillhost mcp`: a client asks its human about a proposal.

use serde_json::{Value, json};
use test_support::TestHome;

use crate::mcp_client::{Client, VERSION};
use crate::scene::{home, skill};

/// What is in every request of the newest version.
fn meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test client", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

/// Has a client propose a change; answers the question about it, if one is asked.
fn proposed(client: &mut Client, answer: &Value) -> (Option<Value>, String) {
    let id = client.ask(
        "tools/call",
        json!({
            "name": "propose_skill_update",
            "arguments": {
                "skill_id": "greet", "justification": "Politer.",
                "new_content": skill("Greets people. Use when somebody arrives.", "Bow first."),
            },
        }),
    );
    let question = (!answer.is_null()).then(|| client.told("elicitation/create"));
    if let Some(question) = &question {
        client.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer }));
    }
    let made = client.answer(id);
    assert_eq!(made["result"]["isError"], false, "{made}");
    let text = made["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    (question, text)
}

#[test]
fn a_client_may_ask_its_human_only_where_the_settings_say_so() {
    let form = json!({ "elicitation": {} });
    let approve = json!({ "action": "accept", "content": { "decision": "approve" } });
    let skill_of = |home: &TestHome| {
        std::fs::read_to_string(home.path("sandbox/skills/greet/SKILL.md")).unwrap()
    };
    // Off, or no way to ask: the proposal waits for the operator.
    for (settings, capabilities) in
        [("{}", &form), ("mcp: {review: off}", &form), ("mcp: {review: elicitation}", &json!({}))]
    {
        let home = home().settings(settings);
        let mut client = Client::start(home.command().arg("mcp"));
        client.initialize(VERSION, capabilities);
        let (_, text) = proposed(&mut client, &Value::Null);
        assert!(text.contains("Nothing is changed") && !text.contains("A person"), "{text}");
        assert!(client.untold().is_empty(), "{:?}", client.untold());
        assert!(!skill_of(&home).contains("Bow"));
    }
    let on = || home().settings("mcp: {review: elicitation}");
    let home = on();
    let mut client = Client::start(home.command().arg("mcp"));
    client.initialize(VERSION, &form);
    let (question, text) = proposed(&mut client, &approve);
    let shown = question.unwrap()["params"]["message"].as_str().unwrap().to_owned();
    assert!(shown.contains("Why: Politer."), "{shown}");
    assert!(shown.contains("\n-Say hello to them.\n+Bow first."), "{shown}");
    assert!(text.contains("A person approved it"), "{text}");
    // It is not waiting for anybody any more.
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
        let mut client = Client::start(home.command().arg("mcp"));
        client.initialize(VERSION, &form);
        proposed(&mut client, &answer);
        assert!(!skill_of(&home).contains("Bow"), "{answer}");
    }
}

/// A call of the newest version that proposes a change.
fn proposing(capabilities: &Value, body: &str) -> Value {
    let text = skill("Greets people. Use when somebody arrives.", body);
    json!({
        "_meta": meta(capabilities), "name": "propose_skill_update",
        "arguments": { "skill_id": "greet", "justification": "Politer.", "new_content": text },
    })
}

#[test]
fn the_newest_version_carries_the_question_and_the_answer() {
    let home = home().settings("mcp: {review: elicitation}");
    let text = || std::fs::read_to_string(home.path("sandbox/skills/greet/SKILL.md")).unwrap();
    let mut client = Client::start(home.command().arg("mcp"));
    // Who cannot show a form is not asked.
    for capabilities in [json!({}), json!({ "elicitation": { "url": {} } })] {
        let made = client.result("tools/call", proposing(&capabilities, "Bow."));
        assert_eq!(made["resultType"], "complete", "{made}");
    }
    let form = json!({ "elicitation": { "form": {} } });
    let call = proposing(&form, "Bow first.");
    let asked = client.result("tools/call", &call);
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let question = &asked["inputRequests"]["review"];
    assert_eq!(question["method"], "elicitation/create");
    let shown = question["params"]["message"].as_str().unwrap();
    assert!(shown.contains("\n-Say hello to them.\n+Bow first."), "{shown}");
    let again = |call: &Value, state: &Value, answer: Value| {
        let mut call = call.clone();
        call["requestState"] = state.clone();
        call["inputResponses"] = json!({ "review": answer });
        call
    };
    let approve = json!({ "action": "accept", "content": { "decision": "approve" } });
    let state = &asked["requestState"];
    // Neither a guess nor another call gets anywhere.
    for call in [
        again(&call, &json!("01ARZ3NDEKTSV4RRFFQ69G5FAV"), approve.clone()),
        again(&proposing(&form, "Bow twice."), state, approve.clone()),
    ] {
        assert_eq!(client.refusal("tools/call", call).0, -32602);
    }
    assert!(!text().contains("Bow"));
    let done = client.result("tools/call", again(&call, state, approve.clone()));
    let value = &done["structuredContent"];
    // It was not proposed a second time.
    assert_eq!((&value["number"], &value["count"]), (&json!(2), &json!(1)));
    assert!(value["review"].as_str().unwrap().starts_with("A person approved it"), "{value}");
    assert_eq!((&value["state"], &value["next"]), (&json!("applied"), &value["review"]));
    let told = done["content"][0]["text"].as_str().unwrap();
    assert!(!told.contains("Nothing is changed") && !told.contains("open"), "{told}");
    assert!(text().contains("Bow first."));
    // And the answer counts once.
    assert_eq!(client.refusal("tools/call", again(&call, state, approve)).0, -32602);
    let decline = json!({ "action": "decline" });
    let call = proposing(&form, "Kneel.");
    let asked = client.result("tools/call", &call);
    let done = client.result("tools/call", again(&call, &asked["requestState"], decline));
    assert_eq!(done["structuredContent"].get("review"), None, "{done}");
    assert!(!text().contains("Kneel"));
}
