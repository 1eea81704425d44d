//! Tests of `skillhost mcp` on standard input and output.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use test_support::TestHome;

use crate::fixtures::{home, skill_md, untrusted_home};
use crate::mcp_client::{Client, VERSION, texts};

/// Returns a SKILL.md that strict clients accept, for a directory of the same name.
pub(crate) fn named_skill(name: &str, body: &str) -> String {
    format!("---\nname: {name}\ndescription: Use for {name}.\n---\n{body}\n")
}

/// Creates the home of [`home`] with a greeting that is in `skills/list`.
pub(crate) fn listed_home() -> TestHome {
    home().skill("greet", &named_skill("greet", "Say hello to them."))
}

/// Creates a home with a skill that has every property of a list entry.
pub(crate) fn full_home() -> TestHome {
    listed_home()
        .skill(
            "review",
            "---\nname: code-review\ndescription: Reviews code.\nversion: 1.2.3\nx-unknown: \
             {deep: [1, two]}\narguments: [file]\n---\nReview $file.\n",
        )
        .file("sandbox/skills/review/references/a b.md", "# Ä\n")
        .file("sandbox/skills/review/assets/logo.png", b"\x89PNG\r\n\x1a\n\xff\x00")
}

#[test]
fn initialize_reports_server_capabilities() {
    let home = home();
    let mut client = Client::spawn(home.command().arg("mcp"));
    let mut info = client.initialize(VERSION, &json!({}));
    assert_eq!(info["protocolVersion"], VERSION);
    assert_eq!(
        info["capabilities"].take(),
        json!({
            "tools": { "listChanged": true },
            "resources": { "subscribe": true, "listChanged": true },
            "prompts": { "listChanged": true },
            "completions": {},
            "extensions": {
                "io.modelcontextprotocol/skills": { "directoryRead": true },
                "io.modelcontextprotocol/tasks": {},
            },
        })
    );
    assert_eq!(info["serverInfo"]["name"], "skillhost");
    let output = client.close();
    assert_eq!((output.status, &*output.stderr), (0, ""));
}

#[test]
fn only_exported_tools_are_available() {
    let home = home();
    let mut client = Client::connect(&home);
    let listed = client.result("tools/list", json!({}));
    // The echo extension exports no tools.
    let names = [
        "list_skills",
        "propose_skill_update",
        "read_skill",
        "read_skill_resource",
        "skills.load",
        "skills.read",
    ];
    assert_eq!(texts(&listed["tools"], "/name"), names);
    let read = &listed["tools"][2];
    assert_eq!(
        read["annotations"],
        json!({ "readOnlyHint": true, "destructiveHint": false, "openWorldHint": false })
    );
    assert_eq!(read["inputSchema"]["properties"]["skill_id"]["enum"], json!(["greet"]));
    let response = client.call("read_skill", json!({ "skill_id": "greet" }));
    let text = response["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("Say hello to them."), "{text}");
    assert_eq!(response["isError"], json!(false));
    for name in ["echo", "approve", ""] {
        let call = json!({ "name": name, "arguments": { "text": "x" } });
        let expected = (-32602, format!("tool {name:?} not found"));
        assert_eq!(client.expect_error("tools/call", call), expected);
    }
}

#[test]
fn tool_failure_is_tool_result() {
    let home = home();
    let mut client = Client::connect(&home);
    let response = client.call("read_skill", json!({ "skill_id": "gret" }));
    assert_eq!(response["isError"], json!(true));
    let error = &response["_meta"]["skillhost/structured"]["error"];
    assert_eq!(error["kind"], "not_found");
    assert_eq!(error["message"], "skill `gret` not found");
    let text = response["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("skill `gret` not found\ndid you mean `greet`?"), "{text}");
    let response = client.call("read_skill", json!({ "skill": 1 }));
    assert_eq!(response["_meta"]["skillhost/structured"]["error"]["kind"], "invalid_argument");
}

#[test]
fn skills_have_frontmatter_and_resource_manifest() {
    let home = full_home();
    let mut client = Client::connect(&home);
    let mut listed = client.result("skills/list", json!({}));
    assert_eq!(listed["cacheScope"], "private");
    assert!(listed["ttlMs"].is_u64(), "{listed}");
    let uris = ["skill://greet/SKILL.md", "skill://review/code-review/SKILL.md"];
    assert_eq!(texts(&listed["skills"], "/uri"), uris);
    let review = listed["skills"][1].take();
    assert_eq!(
        review["frontmatter"],
        json!({
            "name": "code-review", "description": "Reviews code.", "version": "1.2.3",
            "x-unknown": { "deep": [1, "two"] }, "arguments": ["file"],
        })
    );
    let files = review["resources"].as_array().unwrap();
    assert_eq!(
        texts(&review["resources"], "/uri"),
        [
            "skill://review/code-review/SKILL.md",
            "skill://review/code-review/assets/logo.png",
            "skill://review/code-review/references/a%20b.md",
        ]
    );
    for file in files {
        let read = client.result("resources/read", json!({ "uri": file["uri"] }));
        let content = &read["contents"][0];
        assert_eq!(content["uri"], file["uri"]);
        let bytes = content_bytes(content);
        assert_eq!(file["size"], json!(bytes.len()), "{file}");
        let hex: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(file["digest"], format!("sha256:{hex}"), "{file}");
    }
    let got = client.result("skills/get", json!({ "uri": uris[1] }));
    assert_eq!(got["skill"], review);
    for uri in ["skill://nobody/SKILL.md", "skill://review/SKILL.md", "file:///etc/SKILL.md"] {
        assert_eq!(client.expect_error("skills/get", json!({ "uri": uri })).0, -32602, "{uri}");
    }
}

fn content_bytes(content: &Value) -> Vec<u8> {
    match content["text"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => decode_base64(content["blob"].as_str().unwrap()),
    }
}

/// Decodes base64 independently of the server's own library.
fn decode_base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter(|byte| *byte != b'=');
    let digits = digits.map(|byte| ALPHABET.iter().position(|digit| *digit == byte).unwrap());
    let (mut bytes, mut buffer, mut bits) = (Vec::new(), 0, 0);
    for digit in digits {
        buffer = (buffer << 6 | digit) & 0xff_ffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((buffer >> bits) as u8);
        }
    }
    bytes
}

#[test]
fn directories_are_readable() {
    let home = full_home();
    let mut client = Client::connect(&home);
    let mut read = |uri: &str| {
        let listed = client.result("resources/directory/read", json!({ "uri": uri }));
        let entry = |entry: &Value| {
            let text = |key: &str| entry[key].as_str().unwrap().to_owned();
            (text("uri"), text("mimeType"))
        };
        listed["resources"].as_array().unwrap().iter().map(entry).collect::<Vec<_>>()
    };
    let owned = |entries: &[(&str, &str)]| -> Vec<_> {
        entries.iter().map(|&(a, b)| (a.to_owned(), b.to_owned())).collect()
    };
    let root = [
        ("skill://review/code-review/SKILL.md", "text/markdown"),
        ("skill://review/code-review/assets", "inode/directory"),
        ("skill://review/code-review/references", "inode/directory"),
    ];
    assert_eq!(read("skill://review/code-review"), owned(&root));
    assert_eq!(read("skill://review/code-review/"), owned(&root));
    let references = [("skill://review/code-review/references/a%20b.md", "text/markdown")];
    assert_eq!(read("skill://review/code-review/references"), owned(&references));
    for uri in ["skill://review/code-review/SKILL.md", "skill://review/code-review/none"] {
        let error = client.expect_error("resources/directory/read", json!({ "uri": uri }));
        let expected = if uri.ends_with("none") { -32002 } else { -32602 };
        assert_eq!(error.0, expected, "{uri}");
    }
}

#[test]
fn long_lists_are_paged() {
    let mut home = listed_home();
    for number in 0..250 {
        let name = format!("s{number:03}");
        home = home.skill(&name, &named_skill(&name, "Do it."));
    }
    let mut client = Client::connect(&home);
    let methods =
        [("skills/list", "skills"), ("resources/list", "resources"), ("prompts/list", "prompts")];
    for (method, key) in methods {
        let (mut sizes, mut seen, mut cursor) = (Vec::new(), Vec::new(), Value::Null);
        loop {
            let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
            let mut page = client.result(method, params);
            sizes.push(page[key].as_array().unwrap().len());
            let name = if key == "prompts" { "/name" } else { "/uri" };
            seen.extend(texts(&page[key], name));
            cursor = page["nextCursor"].take();
            if cursor.is_null() {
                break;
            }
        }
        assert_eq!(sizes, [100, 100, 51], "{method}");
        let mut unique = seen.clone();
        unique.dedup();
        assert_eq!((unique.len(), unique.is_sorted()), (251, true), "{method}");
        let error = client.expect_error(method, json!({ "cursor": "100" }));
        assert_eq!(error, (-32602, "cursor is not valid".to_owned()));
    }
}

#[test]
fn untrusted_home_is_not_served() {
    let home = untrusted_home();
    let output = home.skillhost(["mcp"]).exits(5);
    assert_eq!(output.stdout, "");
    assert!(output.stderr.contains("skillhost trust [HOME]"), "{}", output.stderr);
}

#[test]
fn untrusted_home_answers_initialize() {
    let home = untrusted_home();
    for (method, params) in [
        ("initialize", json!({ "protocolVersion": VERSION, "capabilities": {} })),
        ("server/discover", json!({})),
    ] {
        let mut client = Client::spawn(home.command().arg("mcp"));
        let (code, message) = client.expect_error(method, params);
        assert_eq!(code, -32000);
        assert!(message.contains("this home is not trusted"), "{message}");
        assert!(message.contains("skillhost trust "), "{message}");
        // A second attempt on the same connection receives the same error.
        assert_eq!(client.expect_error("ping", json!({})).0, -32000);
        let output = client.close();
        assert_eq!(output.status, 5);
        assert!(output.stderr.contains("this home is not trusted"), "{}", output.stderr);
    }
    // Unreadable settings are reported in the same way.
    let home = untrusted_home().trusted().settings("nonsense: [");
    let mut client = Client::spawn(home.command().arg("mcp"));
    let (_, message) = client.expect_error("initialize", json!({}));
    assert!(message.contains("skillhost.yaml"), "{message}");
    assert_ne!(client.close().status, 0);
}

#[test]
fn skills_list_contains_only_valid_skills() {
    let long = "x".repeat(1_025);
    let home = listed_home()
        .skill("odd", "---\nname: Odd Name\ndescription: D.\n---\nOdd.\n")
        .skill("alias", "---\nname: alias\nx: &x D.\ndescription: *x\n---\nAlias.\n")
        .skill("repaired", "---\nname: repaired\ndescription: Use: when.\n---\nRepaired.\n")
        .skill("long", &format!("---\nname: long\ndescription: {long}\n---\nLong.\n"));
    let mut client = Client::connect(&home);
    let listed = client.result("skills/list", json!({}));
    assert_eq!(texts(&listed["skills"], "/uri"), ["skill://greet/SKILL.md"]);
    // The other lists contain these skills.
    let all = ["alias", "greet", "long", "odd", "repaired"];
    let resources = client.result("resources/list", json!({}));
    assert_eq!(texts(&resources["resources"], "/name"), all);
    let prompts = client.result("prompts/list", json!({}));
    assert_eq!(texts(&prompts["prompts"], "/name"), all);
    for id in all {
        let read = client.call("read_skill", json!({ "skill_id": id }));
        assert_eq!(read["isError"], false, "{id}");
    }
    let uri = json!({ "uri": "skill://repaired/SKILL.md" });
    client.result("resources/read", uri.clone());
    assert_eq!(client.expect_error("skills/get", uri).0, -32602);
    let doctor = home.skillhost(["skill", "doctor", "--json"]).exits(1).json();
    let unlisted: Vec<_> = doctor["skills"].as_array().unwrap().iter().collect();
    let unlisted: Vec<_> = unlisted
        .iter()
        .filter(|row| row["unlisted"].is_string())
        .map(|row| &row["skill_id"])
        .collect();
    assert_eq!(unlisted, ["alias", "long", "odd", "repaired"]);
    let report = home.skillhost(["skill", "doctor"]).exits(1).stdout;
    let line = "not in skills/list for MCP clients: `description` has 1025 characters";
    assert!(report.contains(line), "{report}");
}

#[test]
fn repeated_list_shows_changes() {
    let home = full_home();
    let mut client = Client::connect(&home);
    let review = |client: &mut Client| {
        client.result("skills/list", json!({}))["skills"][1]["resources"].take()
    };
    let first = review(&mut client);
    assert_eq!(review(&mut client), first);
    // A poll does not detect changes of files next to a SKILL.md.
    home.write("sandbox/skills/review/references/a b.md", "# Changed\n");
    let second = review(&mut client);
    assert_ne!(second, first);
    let bytes = b"# Changed\n";
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(second[2]["digest"], format!("sha256:{hex}"));
    home.write("sandbox/skills/review/new.md", "New.\n");
    assert_eq!(review(&mut client).as_array().unwrap().len(), 4);
}

#[test]
fn large_resource_is_refused() {
    let text = "x".repeat((8 << 20) + 1);
    let home = listed_home()
        .file("sandbox/skills/greet/fits.txt", &text[1..])
        .file("sandbox/skills/greet/large.txt", &text);
    let mut client = Client::connect(&home);
    let read = client.result("resources/read", json!({ "uri": "skill://greet/fits.txt" }));
    assert_eq!(read["contents"][0]["text"].as_str().unwrap().len(), 8 << 20);
    let uri = json!({ "uri": "skill://greet/large.txt" });
    let (code, message) = client.expect_error("resources/read", uri);
    assert_eq!(code, -32602);
    assert!(message.contains("large.txt has 8388609 bytes"), "{message}");
    // The manifest of a skill lists only readable files.
    let listed = client.result("skills/list", json!({}));
    assert_eq!(listed["skills"][0]["resources"], "dynamic");
}

#[test]
fn open_subscription_does_not_delay_exit() {
    let home = home();
    let mut client = Client::spawn(home.command().arg("mcp"));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let filter = json!({
        "toolsListChanged": true, "resourceSubscriptions": ["skill://greet/SKILL.md"],
    });
    client.send_request("subscriptions/listen", json!({ "_meta": meta, "notifications": filter }));
    client.notification("notifications/subscriptions/acknowledged");
    let closed_at = std::time::Instant::now();
    assert_eq!(client.close().status, 0);
    // Without this, the library would wait for five seconds.
    assert!(closed_at.elapsed() < std::time::Duration::from_secs(4), "{:?}", closed_at.elapsed());
}

#[test]
fn prompts_are_user_invocable_skills() {
    let home = full_home()
        .skill("hidden", "---\ndescription: Hidden.\nuser-invocable: false\n---\nHidden.\n")
        .skill(
            "deploy",
            "---\ndescription: Deploys.\ndisable-model-invocation: true\nargument-hint: '[where]'\n\
             ---\nDeploy to $ARGUMENTS.\n",
        );
    let mut client = Client::connect(&home);
    let listed = client.result("prompts/list", json!({}));
    assert_eq!(texts(&listed["prompts"], "/name"), ["deploy", "greet", "review"]);
    let arguments = |at: usize| listed["prompts"][at]["arguments"].clone();
    let expected = json!([{ "name": "arguments", "description": "[where]", "required": false }]);
    assert_eq!(arguments(0), expected);
    assert_eq!(arguments(2), json!([{ "name": "file", "required": false }]));
    let mut get = |name: &str, arguments: Value| {
        let got = client.result("prompts/get", json!({ "name": name, "arguments": arguments }));
        got["messages"][0]["content"]["text"].as_str().unwrap().to_owned()
    };
    let text = get("deploy", json!({ "arguments": "the moon" }));
    assert!(text.contains("\nDeploy to the moon.\n"), "{text}");
    let text = get("review", json!({ "file": "a.rs" }));
    assert!(text.contains("\nReview a.rs.\n"), "{text}");
    // A model has no access to skills for people only.
    let unknown = (-32602, "prompt \"hidden\" not found".to_owned());
    assert_eq!(client.expect_error("prompts/get", json!({ "name": "hidden" })), unknown);
    let complete = json!({
        "ref": { "type": "ref/prompt", "name": "hidden" }, "argument": { "name": "a", "value": "" },
    });
    assert_eq!(client.expect_error("completion/complete", complete), unknown);
    let uri = json!({ "uri": "skill://deploy/SKILL.md" });
    assert_eq!(client.expect_error("resources/read", uri.clone()).0, -32002);
    assert_eq!(client.expect_error("skills/get", uri).0, -32602);
    let number = json!({ "name": "review", "arguments": { "file": 1 } });
    assert_eq!(client.expect_error("prompts/get", number).0, -32602);
}

#[test]
fn ids_and_paths_are_completed() {
    let home = full_home().skill("greet-2", &skill_md("Greets.", "Hello."));
    let mut client = Client::connect(&home);
    let template = client.result("resources/templates/list", json!({}));
    let template = template["resourceTemplates"][0]["uriTemplate"].clone();
    assert_eq!(template, "skill://{skill_id}/{+path}");
    let reference = json!({ "type": "ref/resource", "uri": template });
    let ask = |name: &str, value: &str, offered: Value| {
        json!({
            "ref": reference, "argument": { "name": name, "value": value },
            "context": { "arguments": offered },
        })
    };
    let mut complete =
        |params: Value| client.result("completion/complete", params)["completion"].take();
    let ids = complete(ask("skill_id", "GREE", json!({})));
    assert_eq!(ids, json!({ "values": ["greet", "greet-2"], "total": 2, "hasMore": false }));
    let paths = complete(ask("path", "a", json!({ "skill_id": "review" })));
    assert_eq!(paths["values"], json!(["assets/logo.png", "references/a b.md"]));
    assert_eq!(complete(ask("path", "a", json!({ "skill_id": "nobody" })))["values"], json!([]));
    let error = client.expect_error("completion/complete", ask("other", "", json!({})));
    assert_eq!(error.0, -32602);
}

#[test]
fn every_protocol_version_is_served() {
    let home = home();
    for (requested, offered) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        // From here on, `initialize` is obsolete; the server replies with the newest version that
        // has it.
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let mut client = Client::spawn(home.command().arg("mcp"));
        let info = client.initialize(requested, &json!({}));
        assert_eq!(info["protocolVersion"], offered, "{requested}");
        assert!(client.result("tools/list", json!({}))["tools"].as_array().unwrap().len() == 6);
        let resources = client.result("resources/list", json!({}));
        assert_eq!(texts(&resources["resources"], "/uri"), ["skill://greet/SKILL.md"]);
        assert_eq!(client.call("read_skill", json!({ "skill_id": "greet" }))["isError"], false);
        assert_eq!(client.close().status, 0);
    }
}

#[test]
fn newest_version_requires_no_initialize() {
    let home = listed_home();
    let mut client = Client::spawn(home.command().arg("mcp"));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let info = client.result("server/discover", json!({ "_meta": meta }));
    assert!(
        info["capabilities"]["extensions"]["io.modelcontextprotocol/skills"].is_object(),
        "{info}"
    );
    let listed = client.result("skills/list", json!({ "_meta": meta }));
    assert_eq!(texts(&listed["skills"], "/uri"), ["skill://greet/SKILL.md"]);
    assert_eq!(
        (&listed["resultType"], &listed["cacheScope"]),
        (&json!("complete"), &json!("private"))
    );
    let unknown = json!({ "_meta": meta, "uri": "skill://nobody/SKILL.md" });
    assert_eq!(client.expect_error("resources/read", unknown).0, -32602);
    // A subscriber receives only the notifications that it requested.
    let filter = json!({ "resourcesListChanged": true, "toolsListChanged": true });
    client.send_request("subscriptions/listen", json!({ "_meta": meta, "notifications": filter }));
    client.notification("notifications/subscriptions/acknowledged");
}

#[test]
fn catalog_settings_filter_skills() {
    let home = full_home().settings("mcp: {catalog: {include: ['*'], exclude: [rev*]}}\n");
    let mut client = Client::connect(&home);
    let listed = client.result("skills/list", json!({}));
    assert_eq!(texts(&listed["skills"], "/uri"), ["skill://greet/SKILL.md"]);
    for (method, key) in [("resources/list", "resources"), ("prompts/list", "prompts")] {
        assert_eq!(client.result(method, json!({}))[key].as_array().unwrap().len(), 1, "{method}");
    }
    let uri = "skill://review/code-review/SKILL.md";
    assert_eq!(client.expect_error("resources/read", json!({ "uri": uri })).0, -32002);
    assert_eq!(client.expect_error("skills/get", json!({ "uri": uri })).0, -32602);
    assert_eq!(client.expect_error("prompts/get", json!({ "name": "review" })).0, -32602);
    let directory = json!({ "uri": "skill://review/code-review" });
    assert_eq!(client.expect_error("resources/directory/read", directory).0, -32002);
    // The model behind the client does not see excluded skills, either.
    let tools = client.result("tools/list", json!({}));
    let read = &tools["tools"][2];
    assert_eq!(read["inputSchema"]["properties"]["skill_id"]["enum"], json!(["greet"]));
    let text = client.call("list_skills", json!({}))["content"][0]["text"].take().to_string();
    assert!(text.contains("greet") && !text.contains("review"), "{text}");
    let change = json!({ "skill_id": "review", "justification": "x", "new_content": "x" });
    for (tool, arguments) in [
        ("read_skill", json!({ "skill_id": "review" })),
        ("read_skill_resource", json!({ "skill_id": "review", "path": "references/a b.md" })),
        ("propose_skill_update", change),
    ] {
        let response = client.call(tool, arguments);
        let error = &response["_meta"]["skillhost/structured"]["error"];
        assert_eq!((&response["isError"], &error["kind"]), (&json!(true), &json!("not_found")));
    }
    assert_eq!(client.call("read_skill", json!({ "skill_id": "greet" }))["isError"], false);
}

#[test]
fn user_only_skill_is_only_prompt() {
    let settings = "extensions: {skill_registry: {skills: {review: user-only, greet: \"off\"}}}\n";
    let home = full_home().settings(settings);
    let mut client = Client::connect(&home);
    let listed = client.result("prompts/list", json!({}));
    assert_eq!(texts(&listed["prompts"], "/name"), ["review"]);
    let prompt = json!({ "name": "review", "arguments": { "file": "a.rs" } });
    let text = client.result("prompts/get", prompt)["messages"][0]["content"]["text"].to_string();
    assert!(text.contains("Review a.rs."), "{text}");
    assert_eq!(client.expect_error("prompts/get", json!({ "name": "greet" })).0, -32602);
    assert_eq!(client.result("skills/list", json!({}))["skills"], json!([]));
    assert_eq!(client.result("resources/list", json!({}))["resources"], json!([]));
    for uri in ["skill://review/code-review/SKILL.md", "skill://greet/SKILL.md"] {
        assert_eq!(client.expect_error("resources/read", json!({ "uri": uri })).0, -32002, "{uri}");
    }
}

#[test]
fn server_without_home_finds_skills() {
    let home = TestHome::new();
    let folder = home.outside().join("elsewhere");
    let write = |path: &std::path::Path, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(&folder.join(".agents/skills/near/SKILL.md"), &skill_md("Near.", "Near."));
    write(&folder.join(".claude/skills/both/SKILL.md"), &skill_md("In the project.", "Project."));
    let user = home.outside().join("user");
    write(&user.join(".claude/skills/both/SKILL.md"), &skill_md("Of the user.", "User."));
    write(&user.join(".agents/skills/far/SKILL.md"), &skill_md("Far.", "Far."));
    let team = home.outside().join("team");
    write(&team.join("shared/SKILL.md"), &skill_md("Shared.", "Shared."));
    let root = format!("team={}", team.display());
    let mut client =
        Client::connect_with(home.command().current_dir(&folder).args(["mcp", "--root", &root]));
    let listed = client.call("list_skills", json!({}));
    let skills = &listed["structuredContent"]["skills"];
    let pairs: Vec<_> =
        texts(skills, "/skill_id").into_iter().zip(texts(skills, "/source")).collect();
    let expected =
        [("both", "claude"), ("far", "user-agents"), ("near", "agents"), ("shared", "team")];
    assert_eq!(pairs, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    // Without a home, the skills are read-only.
    let tools = client.result("tools/list", json!({}));
    assert_eq!(
        texts(&tools["tools"], "/name"),
        ["list_skills", "read_skill", "read_skill_resource", "skills.load", "skills.read"]
    );
    let loaded = client.call("skills.load", json!({ "names": ["near"] }));
    let text = loaded["content"][0]["text"].as_str().unwrap();
    assert!(
        text.starts_with("<skill_content name=\"near\"") && text.contains("\nNear.\n"),
        "{text}"
    );
    let own = json!({ "path": "SKILL.md", "skill": "near" });
    let page = client.call("skills.read", own)["content"][0]["text"].take();
    assert!(page.as_str().unwrap().starts_with("{\"path\":\"SKILL.md\""), "{page}");
    let resources = client.result("resources/list", json!({}));
    let description = resources["resources"][0]["description"].as_str().unwrap();
    assert_eq!(description, "In the project. (from claude, not trusted)");
    // A poll finds the new skill.
    write(&folder.join(".agents/skills/new/SKILL.md"), &skill_md("New.", "New."));
    client.notification("notifications/resources/list_changed");
    assert_eq!(client.call("read_skill", json!({ "skill_id": "new" }))["isError"], false);
}

#[test]
fn root_option_adds_root() {
    let home = listed_home();
    let team = home.outside().join("team");
    std::fs::create_dir_all(team.join("shared")).unwrap();
    std::fs::write(team.join("shared/SKILL.md"), named_skill("shared", "Shared.")).unwrap();
    let root = format!("team={}", team.display());
    let mut client = Client::connect_with(home.command().args(["mcp", "--root", &root]));
    let listed = client.result("skills/list", json!({}));
    let uris = ["skill://greet/SKILL.md", "skill://shared/SKILL.md"];
    assert_eq!(texts(&listed["skills"], "/uri"), uris);
    let output = home.skillhost(["mcp", "--root", "x=nowhere"]).exits(3);
    assert!(output.stderr.contains("nowhere: no such directory"), "{}", output.stderr);
    home.skillhost(["mcp", "--root", "nowhere"]).exits(2);
}
