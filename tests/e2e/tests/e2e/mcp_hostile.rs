//! Tests of `skillhost mcp` with hostile clients and with many calls.

use serde_json::{Value, json};

use crate::fixtures::home;
use crate::mcp::full_home;
use crate::mcp_client::{Client, VERSION};

/// Requires that the server still serves the client.
#[track_caller]
fn assert_still_serves(client: &mut Client) {
    let response = client.call("read_skill", json!({ "skill_id": "greet" }));
    assert_eq!(response["isError"], false);
}

#[test]
fn server_survives_garbage() {
    let home = home();
    let mut client = Client::connect(&home);
    for garbage in [
        &b"\n\r\n   \n"[..],
        b"not json\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":\n",
        b"\xff\xfe\x00\x01\n",
        b"[]\n[1,2,3]\n",
        b"{\"jsonrpc\":\"1.0\",\"id\":1}\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":7}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}\n",
        b"\"text\"\nnull\ntrue\n-1\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":99999,\"result\":{}}\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":5}}\n",
    ] {
        client.write(garbage);
        assert_still_serves(&mut client);
    }
    // The parser limits the depth, so the stack cannot overflow.
    client.write(format!("{}{}\n", "[".repeat(200_000), "]".repeat(200_000)).as_bytes());
    assert_still_serves(&mut client);
    for method in ["tools/call", "resources/read", "skills/get", "prompts/get", "no/such/method"] {
        let response = client.request(method, json!({ "nonsense": [] }));
        assert!(response["error"]["code"].is_i64(), "{method}: {response}");
    }
    assert_still_serves(&mut client);
    assert_eq!(client.close().status, 0);
}

#[test]
fn huge_message_is_dropped() {
    let home = home();
    let mut client = Client::connect(&home);
    let ask = |id: u64, bytes: usize| {
        let text = "x".repeat(bytes);
        json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": "read_skill", "arguments": { "skill_id": text } },
        })
    };
    client.send(&ask(1_000, 5 << 20));
    client.send(&ask(1_001, 3 << 20));
    let response = client.response(1_001);
    let error = &response["result"]["_meta"]["skillhost/structured"]["error"];
    assert_eq!(error["kind"], "not_found", "{error}");
    assert!(error["message"].as_str().unwrap().len() < 1_000);
    assert_still_serves(&mut client);
    // A message without an end must not use memory without limit.
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..64 {
        client.write(&chunk);
    }
    client.write(b"\n");
    assert_still_serves(&mut client);
    let output = client.close();
    assert_eq!(output.status, 0);
    assert!(output.stderr.contains("exceeded the maximum line length"), "{}", output.stderr);
}

#[test]
fn partial_message_at_eof_exits() {
    let home = home();
    let mut client = Client::connect(&home);
    client.write(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"pi");
    let output = client.close();
    assert_eq!((output.status, &*output.stderr), (0, ""));
    // A client may disconnect before it has initialized or while a call runs.
    assert_eq!(Client::spawn(home.command().arg("mcp")).close().status, 0);
    let mut client = Client::spawn(home.command().arg("mcp"));
    client.write(b"{\"jsonrpc\":\"2.0\"");
    assert_eq!(client.close().status, 0);
    let mut client = Client::connect(&home);
    for _ in 0..50 {
        client.send_request("tools/call", json!({ "name": "list_skills", "arguments": {} }));
    }
    assert_eq!(client.close().status, 0);
}

#[test]
fn invalid_handshake_is_rejected() {
    let home = home();
    let mut client = Client::spawn(home.command().arg("mcp"));
    // A request lacks the metadata of the newest version, so there is no session yet.
    assert_eq!(client.expect_error("tools/list", json!({})).0, -32602);
    client.initialize(VERSION, &json!({}));
    assert_still_serves(&mut client);
    let mut client = Client::spawn(home.command().arg("mcp"));
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let output = client.wait_for_exit();
    assert_eq!(output.status, 1);
    assert!(output.stderr.starts_with("error: client failed to initialize"), "{}", output.stderr);
}

#[test]
fn thousand_concurrent_calls_are_answered() {
    let home = home();
    let mut client = Client::connect(&home);
    let ids: Vec<_> = (0..1_000)
        .map(|number| {
            let (name, arguments) = match number % 3 {
                0 => ("read_skill", json!({ "skill_id": "greet" })),
                1 => ("list_skills", json!({ "query": format!("q{number}") })),
                _ => ("read_skill", json!({ "skill_id": format!("no-{number}") })),
            };
            (
                number,
                client.send_request("tools/call", json!({ "name": name, "arguments": arguments })),
            )
        })
        .collect();
    for (number, id) in ids {
        let response = client.response(id);
        let result = &response["result"];
        assert_eq!(result["isError"], json!(number % 3 == 2), "{number}: {response}");
        if number % 3 == 2 {
            let message = format!("skill `no-{number}` not found");
            assert_eq!(
                result["_meta"]["skillhost/structured"]["error"]["message"],
                message.as_str()
            );
        }
    }
    assert_eq!(client.close().status, 0);
}

#[test]
fn two_clients_are_isolated() {
    let home = home();
    let (mut one, mut other) = (Client::connect(&home), Client::connect(&home));
    for round in 0..20 {
        let first_id = one.send_request(
            "tools/call",
            json!({ "name": "read_skill", "arguments": { "skill_id": "greet" } }),
        );
        let missing = format!("missing-{round}");
        let second_result = other.call("read_skill", json!({ "skill_id": missing }));
        assert_eq!(second_result["isError"], true);
        assert_eq!(one.response(first_id)["result"]["isError"], false);
    }
    let proposal = |text: &str| {
        json!({
            "skill_id": "greet", "justification": "It says more.",
            "new_content": format!("---\ndescription: Greets people.\n---\n{text}\n"),
        })
    };
    for (client, text) in [(&mut one, "One."), (&mut other, "Other.")] {
        let made = client.call("propose_skill_update", proposal(text));
        assert_eq!(made["isError"], false, "{made}");
    }
    assert_eq!((one.close().status, other.close().status), (0, 0));
    // The caller in the log comes from the kernel, not from the model.
    let listed = home.skillhost(["skill", "proposals", "--json"]).success().json().to_string();
    assert_eq!(listed.matches("mcp:test-client").count(), 2, "{listed}");
}

/// Returns paths that lead out of a skill's directory.
fn escaping_paths() -> Vec<String> {
    let mut ways = Vec::new();
    for up in
        ["..", "%2e%2e", "%2E.", "..%00", "%252e%252e", "\u{ff0e}\u{ff0e}", "....", ".. ", "..;"]
    {
        for slash in ["/", "%2f", "%2F", "\\", "%5c", "//", "%252f", "\u{2215}", "/./"] {
            for depth in [1, 2, 6] {
                let climb = format!("{up}{slash}").repeat(depth);
                for target in ["etc/passwd", "greet/SKILL.md", "secret", "SKILL.md"] {
                    ways.push(format!("{climb}{target}"));
                    ways.push(format!("references/{climb}{target}"));
                }
            }
        }
    }
    for target in [
        "/etc/passwd",
        "//etc/passwd",
        "C:\\secret",
        "~/secret",
        "link",
        "dir-link/secret",
        "/proc/self/environ",
    ] {
        ways.push(target.to_owned());
        ways.push(format!("file://{target}"));
    }
    ways
}

#[test]
fn paths_cannot_leave_skill_directory() {
    const SECRET: &str = "the secret of the house";
    let home = full_home().file("sandbox/secret", SECRET).file("secret", SECRET);
    std::fs::write(home.outside().join("secret"), SECRET).unwrap();
    let skill = home.path("sandbox/skills/review");
    std::os::unix::fs::symlink(home.path("secret"), skill.join("link")).unwrap();
    std::os::unix::fs::symlink(home.outside(), skill.join("dir-link")).unwrap();
    let mut client = Client::connect(&home);
    let escapes = escaping_paths();
    assert!(escapes.len() >= 1_000, "{}", escapes.len());
    let leaks = |response: &Value| {
        let text = response.to_string();
        text.contains(SECRET) || text.contains("root:x:") || text.contains("Say hello")
    };
    let mut pending = Vec::new();
    for way in &escapes {
        for base in ["skill://review/code-review/", "skill://review/", "skill://"] {
            let uri = json!({ "uri": format!("{base}{way}") });
            // The URI of the greeting itself is valid.
            if uri["uri"] != "skill://greet/SKILL.md" {
                pending.push((
                    true,
                    uri.clone(),
                    client.send_request("resources/read", uri.clone()),
                ));
                pending.push((
                    true,
                    uri.clone(),
                    client.send_request("resources/directory/read", uri.clone()),
                ));
                pending.push((true, uri.clone(), client.send_request("skills/get", uri)));
            }
        }
        for (tool, arguments) in [
            ("read_skill_resource", json!({ "skill_id": "review", "path": way })),
            ("read_skill_resource", json!({ "skill_id": way, "path": "SKILL.md" })),
            ("read_skill", json!({ "skill_id": way })),
            ("list_skills", json!({ "query": way })),
            (
                "propose_skill_update",
                json!({ "skill_id": "review", "path": way, "new_content": "x", "justification": "" }),
            ),
        ] {
            let params = json!({ "name": tool, "arguments": arguments });
            pending.push((
                tool == "list_skills",
                params.clone(),
                client.send_request("tools/call", params),
            ));
        }
        // Each response is read before the next attempt, so that no queue fills.
        for (allowed, params, id) in pending.drain(..) {
            let response = client.response(id);
            assert!(!leaks(&response), "{params}: {response}");
            let denied =
                response["error"]["code"].is_i64() || response["result"]["isError"] == true;
            assert!(denied || allowed && params["name"] == "list_skills", "{params}: {response}");
        }
    }
    assert_eq!(std::fs::read_to_string(home.path("secret")).unwrap(), SECRET);
}
