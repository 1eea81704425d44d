//! `skillhost mcp` and clients that mean no good, or many at once.

use serde_json::{Value, json};

use crate::mcp::furnished;
use crate::mcp_client::{Client, VERSION};
use crate::scene::home;

/// A client still gets what it asks for.
#[track_caller]
fn still_serves(client: &mut Client) {
    let answer = client.call("read_skill", json!({ "skill_id": "greet" }));
    assert_eq!(answer["isError"], false);
}

#[test]
fn garbage_is_survived() {
    let home = home();
    let mut client = Client::of(&home);
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
        still_serves(&mut client);
    }
    // Deep nesting is refused by the parser, not by the stack.
    client.write(format!("{}{}\n", "[".repeat(200_000), "]".repeat(200_000)).as_bytes());
    still_serves(&mut client);
    for method in ["tools/call", "resources/read", "skills/get", "prompts/get", "no/such/method"] {
        let answer = client.request(method, json!({ "nonsense": [] }));
        assert!(answer["error"]["code"].is_i64(), "{method}: {answer}");
    }
    still_serves(&mut client);
    assert_eq!(client.end().status, 0);
}

#[test]
fn a_huge_message_is_dropped_and_a_large_one_is_not() {
    let home = home();
    let mut client = Client::of(&home);
    let ask = |id: u64, bytes: usize| {
        let text = "x".repeat(bytes);
        json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": "read_skill", "arguments": { "skill_id": text } },
        })
    };
    client.send(&ask(1_000, 5 << 20));
    client.send(&ask(1_001, 3 << 20));
    let answer = client.answer(1_001);
    let error = &answer["result"]["_meta"]["skillhost/structured"]["error"];
    assert_eq!(error["kind"], "not_found", "{error}");
    assert!(error["message"].as_str().unwrap().len() < 1_000);
    still_serves(&mut client);
    // Without an end in sight, memory stays what it was.
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..64 {
        client.write(&chunk);
    }
    client.write(b"\n");
    still_serves(&mut client);
    let output = client.end();
    assert_eq!(output.status, 0);
    assert!(output.stderr.contains("exceeded the maximum line length"), "{}", output.stderr);
}

#[test]
fn half_a_message_and_the_end_is_an_end() {
    let home = home();
    let mut client = Client::of(&home);
    client.write(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"pi");
    let output = client.end();
    assert_eq!((output.status, &*output.stderr), (0, ""));
    // Nor does it matter when a client goes before it has begun, or while it is waited for.
    assert_eq!(Client::start(home.command().arg("mcp")).end().status, 0);
    let mut client = Client::start(home.command().arg("mcp"));
    client.write(b"{\"jsonrpc\":\"2.0\"");
    assert_eq!(client.end().status, 0);
    let mut client = Client::of(&home);
    for _ in 0..50 {
        client.ask("tools/call", json!({ "name": "list_skills", "arguments": {} }));
    }
    assert_eq!(client.end().status, 0);
}

#[test]
fn whoever_begins_wrongly_is_told_and_sent_away() {
    let home = home();
    let mut client = Client::start(home.command().arg("mcp"));
    // Without what the newest version wants in every request, there is no session yet.
    assert_eq!(client.refusal("tools/list", json!({})).0, -32602);
    client.initialize(VERSION, &json!({}));
    still_serves(&mut client);
    let mut client = Client::start(home.command().arg("mcp"));
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let output = client.ended();
    assert_eq!(output.status, 1);
    assert!(output.stderr.starts_with("error: the client did not begin"), "{}", output.stderr);
}

#[test]
fn a_thousand_calls_at_once_are_all_answered() {
    let home = home();
    let mut client = Client::of(&home);
    let ids: Vec<_> = (0..1_000)
        .map(|number| {
            let (name, arguments) = match number % 3 {
                0 => ("read_skill", json!({ "skill_id": "greet" })),
                1 => ("list_skills", json!({ "query": format!("q{number}") })),
                _ => ("read_skill", json!({ "skill_id": format!("no-{number}") })),
            };
            (number, client.ask("tools/call", json!({ "name": name, "arguments": arguments })))
        })
        .collect();
    for (number, id) in ids {
        let answer = client.answer(id);
        let result = &answer["result"];
        assert_eq!(result["isError"], json!(number % 3 == 2), "{number}: {answer}");
        if number % 3 == 2 {
            let message = format!("there is no skill `no-{number}`");
            assert_eq!(
                result["_meta"]["skillhost/structured"]["error"]["message"],
                message.as_str()
            );
        }
    }
    assert_eq!(client.end().status, 0);
}

#[test]
fn two_clients_do_not_see_each_other() {
    let home = home();
    let (mut one, mut other) = (Client::of(&home), Client::of(&home));
    for round in 0..20 {
        let mine = one.ask(
            "tools/call",
            json!({ "name": "read_skill", "arguments": { "skill_id": "greet" } }),
        );
        let missing = format!("missing-{round}");
        let theirs = other.call("read_skill", json!({ "skill_id": missing }));
        assert_eq!(theirs["isError"], true);
        assert_eq!(one.answer(mine)["result"]["isError"], false);
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
    assert_eq!((one.end().status, other.end().status), (0, 0));
    // The kernel says who it was, not the model.
    let listed = home.skillhost(["skill", "proposals", "--json"]).success().json().to_string();
    assert_eq!(listed.matches("mcp:test-client").count(), 2, "{listed}");
}

/// Ways out of a skill's directory, as paths.
fn escapes() -> Vec<String> {
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
fn no_address_and_no_argument_leads_out_of_a_skill() {
    const SECRET: &str = "the secret of the house";
    let home = furnished().file("sandbox/secret", SECRET).file("secret", SECRET);
    std::fs::write(home.outside().join("secret"), SECRET).unwrap();
    let skill = home.path("sandbox/skills/review");
    std::os::unix::fs::symlink(home.path("secret"), skill.join("link")).unwrap();
    std::os::unix::fs::symlink(home.outside(), skill.join("dir-link")).unwrap();
    let mut client = Client::of(&home);
    let escapes = escapes();
    assert!(escapes.len() >= 1_000, "{}", escapes.len());
    let leaks = |answer: &Value| {
        let text = answer.to_string();
        text.contains(SECRET) || text.contains("root:x:") || text.contains("Say hello")
    };
    let mut asked = Vec::new();
    for way in &escapes {
        for base in ["skill://review/code-review/", "skill://review/", "skill://"] {
            let uri = json!({ "uri": format!("{base}{way}") });
            // The greeting's own address is no way out.
            if uri["uri"] != "skill://greet/SKILL.md" {
                asked.push((true, uri.clone(), client.ask("resources/read", uri.clone())));
                asked.push((
                    true,
                    uri.clone(),
                    client.ask("resources/directory/read", uri.clone()),
                ));
                asked.push((true, uri.clone(), client.ask("skills/get", uri)));
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
            asked.push((tool == "list_skills", params.clone(), client.ask("tools/call", params)));
        }
        // What is asked is answered before the next way is tried, so that no queue fills.
        for (allowed, params, id) in asked.drain(..) {
            let answer = client.answer(id);
            assert!(!leaks(&answer), "{params}: {answer}");
            let refused = answer["error"]["code"].is_i64() || answer["result"]["isError"] == true;
            assert!(refused || allowed && params["name"] == "list_skills", "{params}: {answer}");
        }
    }
    assert_eq!(std::fs::read_to_string(home.path("secret")).unwrap(), SECRET);
}
