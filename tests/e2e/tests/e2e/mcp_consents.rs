//! Tests of `skillhost mcp`: a call that requires an approval asks the client's user, and the inbox
//! decides as well.

use serde_json::{Value, json};
use test_support::{Output, TestHome, example_library, poll_until};

use crate::fixtures::shipped_manifest;
use crate::mcp_client::{Client, VERSION};

const ON: &str = "mcp: {consent: elicitation}\n";

/// Creates a home whose exported tool `bad` requires an approval and records its calls, and which
/// exports `write_file`.
pub(crate) fn consent_home(settings: &str) -> TestHome {
    let bad = "id: bad\nname: Bad\nentrypoint: misbehave\nconfig: {approval: always}\n\
               mcp: {tools: [bad]}\n";
    let core_tools = format!("{}mcp: {{tools: [write_file]}}\n", shipped_manifest("core_tools"));
    TestHome::new()
        .manifest("core_tools", &core_tools)
        .manifest("bad", bad)
        .library("bad", "misbehave", &example_library("misbehave"))
        .settings(settings)
        .trusted()
}

/// Returns the number of calls of `bad` so far.
pub(crate) fn count_calls(home: &TestHome) -> usize {
    let record = std::fs::read_to_string(home.path("record")).unwrap_or_default();
    record.lines().filter(|line| line.starts_with("bad bad ")).count()
}

/// Returns the only open question.
pub(crate) fn only_question(home: &TestHome) -> Value {
    let listed = home.skillhost(["inbox", "list", "--json"]).success().json();
    let [question] = listed["questions"].as_array().unwrap().as_slice() else { panic!("{listed}") };
    question.clone()
}

fn decide(home: &TestHome, question: &Value, command: &str) -> Output {
    let (id, digest) = (question["id"].as_str().unwrap(), question["digest"].as_str().unwrap());
    match command {
        "approve" => home.skillhost(["inbox", "approve", id, "--digest", digest]),
        _ => home.skillhost(["inbox", command, id]),
    }
}

/// Starts a call, and returns its id with the request to the client's user.
fn start_call(client: &mut Client) -> (u64, Value) {
    let call = json!({ "name": "bad", "arguments": { "do": "key" } });
    let id = client.send_request("tools/call", call);
    (id, client.notification("elicitation/create"))
}

fn answer(client: &mut Client, request: &Value, result: &Value) {
    client.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }));
}

fn accept(decision: &str) -> Value {
    json!({ "action": "accept", "content": { "decision": decision } })
}

fn connect(home: &TestHome) -> Client {
    let mut client = Client::spawn(home.command().arg("mcp"));
    client.initialize(VERSION, &json!({ "elicitation": {} }));
    client
}

fn text_of(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

#[test]
fn consent_is_asked_only_if_allowed() {
    for settings in ["{}", "mcp: {consent: off}", "mcp: {review: elicitation}"] {
        let home = consent_home(settings);
        let mut client = connect(&home);
        let denied = client.call("bad", json!({ "do": "key" }));
        assert!(text_of(&denied).contains("no approval channel is available"), "{denied}");
        assert!(client.unread_methods().is_empty(), "{:?}", client.unread_methods());
    }
    // A client without forms is not asked either.
    let home = consent_home(ON);
    let mut client = Client::connect(&home);
    let denied = client.call("bad", json!({ "do": "key" }));
    assert_eq!((&denied["isError"], count_calls(&home)), (&json!(true), 0), "{denied}");
}

#[test]
fn user_of_client_decides_about_call() {
    let home = consent_home(ON);
    let mut client = connect(&home);
    for (result, calls, closed) in [
        (accept("approve"), 1, "decided as `approve` by mcp:test-client on mcp at "),
        (accept("refuse"), 1, "decided as `refuse` by mcp:test-client on mcp at "),
        (json!({ "action": "decline" }), 1, "decided as `refuse` by mcp:test-client on mcp at "),
        (json!({ "action": "cancel" }), 1, "mcp:test-client did not answer"),
        // A form that was not sent is no answer.
        (accept("edit"), 1, "mcp:test-client did not answer"),
    ] {
        let (id, request) = start_call(&mut client);
        let question = only_question(&home);
        let message = request["params"]["message"].as_str().unwrap();
        assert!(message.contains("mcp:test-client requests approval"), "{message}");
        assert!(message.contains(question["digest"].as_str().unwrap()), "{message}");
        let offered = &request["params"]["requestedSchema"]["properties"]["decision"]["enum"];
        assert_eq!(offered, &json!(["approve", "refuse"]));
        answer(&mut client, &request, &result);
        let made = client.response(id)["result"].take();
        let is_approved = result == accept("approve");
        assert_eq!((&made["isError"], count_calls(&home)), (&json!(!is_approved), calls), "{made}");
        let late = decide(&home, &question, "approve").exits(4);
        assert!(late.stderr.contains(closed), "{late}");
    }
}

#[test]
fn inbox_decides_about_call_of_client() {
    let home = consent_home(ON);
    let mut client = connect(&home);
    let (id, _) = start_call(&mut client);
    decide(&home, &only_question(&home), "approve").success();
    let made = client.response(id)["result"].take();
    assert_eq!((&made["isError"], count_calls(&home)), (&json!(false), 1), "{made}");
    assert!(
        text_of(&made).contains("was decided before: approve, by operator, terminal"),
        "{made}"
    );
    let (id, _) = start_call(&mut client);
    decide(&home, &only_question(&home), "refuse").success();
    let made = client.response(id)["result"].take();
    assert_eq!((&made["isError"], count_calls(&home)), (&json!(true), 1), "{made}");
    assert!(text_of(&made).contains("refused by operator, terminal"), "{made}");
    // A call that the client cancels leaves no question behind.
    let (id, _) = start_call(&mut client);
    let question = only_question(&home);
    let params = json!({ "requestId": id, "reason": "never mind" });
    client
        .send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
    // Answered after the cancellation was read.
    client.result("ping", json!({}));
    let state = || {
        let shown = home.skillhost(["inbox", "show", question["id"].as_str().unwrap(), "--json"]);
        shown.success().json()["question"]["state"].clone()
    };
    poll_until("a withdrawn question", || {
        let state = state();
        if state == "withdrawn" { Ok(()) } else { Err(state) }
    });
    assert_eq!(count_calls(&home), 1);
}

/// Returns a call of the newest version.
pub(crate) fn newest_call(tool: &str, arguments: &Value) -> Value {
    json!({
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test client", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} } },
        },
        "name": tool, "arguments": arguments,
    })
}

/// Returns the repetition of a call with the user's answer.
pub(crate) fn with_answer(call: &Value, asked: &Value, answer: &Value) -> Value {
    let mut call = call.clone();
    call["requestState"] = asked["requestState"].clone();
    call["inputResponses"] = json!({ "consent": answer });
    call
}

#[test]
fn newest_version_repeats_call_with_decision() {
    let home = consent_home(ON);
    let mut client = Client::spawn(home.command().arg("mcp"));
    let call = newest_call("bad", &json!({ "do": "key" }));
    let asked = client.result("tools/call", &call);
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    assert_eq!(asked["inputRequests"]["consent"]["method"], "elicitation/create");
    assert_eq!(count_calls(&home), 0);
    // Another call does not get the approval, and the same one gets it once.
    let other = newest_call("bad", &json!({ "do": "key", "n": 2 }));
    let stolen = with_answer(&other, &asked, &accept("approve"));
    assert_eq!(client.expect_error("tools/call", stolen).0, -32602);
    let repeated = with_answer(&call, &asked, &accept("approve"));
    assert_eq!(client.result("tools/call", &repeated)["isError"], false);
    assert_eq!(client.expect_error("tools/call", repeated).0, -32602);
    assert_eq!(count_calls(&home), 1);
    // The inbox was faster: its decision counts, whatever the client answers.
    for (command, answer, calls, told) in [
        ("approve", "refuse", 2, "was decided before: approve, by operator, terminal"),
        ("refuse", "approve", 2, "refused by operator, terminal"),
    ] {
        let asked = client.result("tools/call", &call);
        decide(&home, &only_question(&home), command).success();
        let made = client.result("tools/call", with_answer(&call, &asked, &accept(answer)));
        assert!(text_of(&made).contains(told), "{made}");
        assert_eq!(count_calls(&home), calls);
    }
    // Without an answer the call is not made.
    let asked = client.result("tools/call", &call);
    let question = only_question(&home);
    let dismissed = with_answer(&call, &asked, &json!({ "action": "cancel" }));
    assert_eq!(client.result("tools/call", dismissed)["isError"], true);
    let late = decide(&home, &question, "approve").exits(4);
    assert!(late.stderr.contains("mcp:test-client did not answer"), "{late}");
    assert_eq!(count_calls(&home), 2);
}

#[test]
fn changed_bytes_of_call_are_not_executed() {
    let home = consent_home(ON);
    home.write("sandbox/extensions/x/manifest.yaml", "id: y\n");
    let manifest = || std::fs::read_to_string(home.path("sandbox/extensions/x/manifest.yaml"));
    let arguments = json!({ "path": "extensions/x/manifest.yaml", "content": "id: x\n" });
    let call = newest_call("write_file", &arguments);
    let mut client = Client::spawn(home.command().arg("mcp"));
    let asked = client.result("tools/call", &call);
    let message = asked["inputRequests"]["consent"]["params"]["message"].as_str().unwrap();
    assert!(message.contains("-id: y"), "{message}");
    home.write("sandbox/extensions/x/manifest.yaml", "id: z\n");
    let made = client.result("tools/call", with_answer(&call, &asked, &accept("approve")));
    assert!(text_of(&made).contains("has changed since it was shown"), "{made}");
    assert_eq!(manifest().unwrap(), "id: z\n");
    let asked = client.result("tools/call", &call);
    let made = client.result("tools/call", with_answer(&call, &asked, &accept("approve")));
    assert_eq!((&made["isError"], &*manifest().unwrap()), (&json!(false), "id: x\n"), "{made}");
}
