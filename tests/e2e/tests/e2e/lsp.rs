//! Tests of `skillhost skill lsp`: a client of its own drives the built program over its streams.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};
use test_support::TestHome;

const HEAD: &str = "---\nname: beads\ndescription: Counts beads in jars. Use when the user asks how many beads there are.\n";

/// A client that sends messages and reads replies.
struct LspClient {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    uri: String,
    last_id: i64,
    /// Notifications that were read before a reply.
    notified: Vec<Value>,
}

impl LspClient {
    /// Starts the server and initializes it, with a pause before checks in milliseconds.
    fn start(home: &TestHome, debounce: u64) -> Self {
        let mut command = home.command();
        command.args(["skill", "lsp"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let uri = format!("file://{}", home.path("beads/SKILL.md").display());
        let output = BufReader::new(output);
        let mut client = Self { child, input, output, uri, last_id: 0, notified: Vec::new() };
        let options = json!({ "debounce": debounce });
        let result = client.request("initialize", &json!({ "initializationOptions": options }));
        assert_eq!(result["result"]["capabilities"]["hoverProvider"], true, "{result}");
        client.notify("initialized", &json!({}));
        client
    }

    fn send_bytes(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(bytes).unwrap();
        input.flush().unwrap();
    }

    fn frame(message: &Value) -> Vec<u8> {
        let text = message.to_string();
        format!("Content-Length: {}\r\n\r\n{text}", text.len()).into_bytes()
    }

    fn notify(&mut self, method: &str, params: &Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.send_bytes(&Self::frame(&message));
    }

    /// Sends a request and returns its reply.
    fn request(&mut self, method: &str, params: &Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send_bytes(&Self::frame(&message));
        loop {
            let message = self.read();
            if message["id"] == id {
                return message;
            }
            self.notified.push(message);
        }
    }

    fn read(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the server has ended");
            match line.trim().strip_prefix("Content-Length: ") {
                Some(number) => length = number.parse().unwrap(),
                None if line.trim().is_empty() => break,
                None => {}
            }
        }
        let mut bytes = vec![0; length];
        self.output.read_exact(&mut bytes).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    fn open(&mut self, text: &str) {
        let item = json!({ "uri": self.uri, "languageId": "markdown", "version": 1, "text": text });
        self.notify("textDocument/didOpen", &json!({ "textDocument": item }));
    }

    fn change(&mut self, version: i64, changes: &Value) {
        let id = json!({ "uri": self.uri, "version": version });
        let params = json!({ "textDocument": id, "contentChanges": changes });
        self.notify("textDocument/didChange", &params);
    }

    /// Returns the next diagnostics: their version, and the list.
    fn diagnostics(&mut self) -> (Value, Vec<Value>) {
        let method = "textDocument/publishDiagnostics";
        let message = match self.notified.iter().position(|it| it["method"] == method) {
            Some(index) => self.notified.remove(index),
            None => loop {
                let message = self.read();
                if message["method"] == method {
                    break message;
                }
                self.notified.push(message);
            },
        };
        let params = &message["params"];
        (params["version"].clone(), params["diagnostics"].as_array().unwrap().clone())
    }

    fn document(&self) -> Value {
        json!({ "uri": self.uri })
    }

    fn code_actions(&mut self, line: u32, only: Option<&str>) -> Vec<Value> {
        let place = json!({ "line": line, "character": 9 });
        let mut context = json!({ "diagnostics": [] });
        if let Some(only) = only {
            context["only"] = json!([only]);
        }
        let params = json!({
            "textDocument": self.document(),
            "range": { "start": place, "end": place },
            "context": context,
        });
        let reply = self.request("textDocument/codeAction", &params);
        reply["result"].as_array().unwrap_or_else(|| panic!("{reply}")).clone()
    }

    /// Ends the session as editors do and returns the exit code.
    fn shut_down(mut self) -> Option<i32> {
        assert_eq!(self.request("shutdown", &Value::Null)["result"], Value::Null);
        self.notify("exit", &Value::Null);
        self.child.wait().unwrap().code()
    }
}

impl Drop for LspClient {
    fn drop(&mut self) {
        // It has ended already, or a test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn rules(diagnostics: &[Value]) -> Vec<&str> {
    diagnostics.iter().map(|it| it["code"].as_str().unwrap()).collect()
}

fn beads_home() -> TestHome {
    TestHome::new().file("beads/SKILL.md", format!("{HEAD}---\nCount.\n"))
}

/// Applies the edits of a code action, of which no two are on one line.
fn apply_edits(text: &str, edits: &Value) -> String {
    let mut lines: Vec<Vec<u16>> =
        text.split_inclusive('\n').map(|line| line.encode_utf16().collect()).collect();
    for edit in edits.as_array().unwrap() {
        let (start, end) = (&edit["range"]["start"], &edit["range"]["end"]);
        assert_eq!(start["line"], end["line"], "{edit}");
        let number = |place: &Value| place["character"].as_u64().unwrap() as usize;
        let new = edit["newText"].as_str().unwrap().encode_utf16();
        lines[start["line"].as_u64().unwrap() as usize].splice(number(start)..number(end), new);
    }
    String::from_utf16(&lines.concat()).unwrap()
}

#[test]
fn opened_file_gets_diagnostics_and_fixes() {
    let home = beads_home();
    let mut client = LspClient::start(&home, 0);
    // The emoji has two UTF-16 code units, but is one character.
    let text = format!("{HEAD}---\nOpen 😀 `scripts\\count.py`.\n");
    client.open(&text);
    let (version, found) = client.diagnostics();
    assert_eq!((version, rules(&found)), (json!(1), vec!["backslash-path"]));
    assert_eq!(
        (&found[0]["range"], &found[0]["severity"], &found[0]["source"]),
        (
            &json!({
                "start": { "line": 4, "character": 8 },
                "end": { "line": 4, "character": 27 },
            }),
            &json!(2),
            &json!("skillhost")
        )
    );
    let actions = client.code_actions(4, None);
    let titles: Vec<_> = actions.iter().map(|it| it["title"].as_str().unwrap()).collect();
    assert_eq!(
        titles,
        [
            "Fix: `scripts\\count.py` is written with backslashes",
            "Suppress `backslash-path` in this file",
            "Apply all automatic fixes"
        ]
    );
    let uri = client.uri.clone();
    let fixed = apply_edits(&text, &actions[0]["edit"]["changes"][&uri]);
    assert_eq!(fixed, text.replace('\\', "/"));
    let suppressed = apply_edits(&text, &actions[1]["edit"]["changes"][&uri]);
    client.change(2, &json!([{ "text": suppressed }]));
    assert_eq!(client.diagnostics(), (json!(2), vec![]));
    client.change(3, &json!([{ "text": text }]));
    assert_eq!(client.diagnostics().1.len(), 1);
    assert!(client.code_actions(1, Some("quickfix")).is_empty());
    let all = client.code_actions(0, Some("source.fixAll"));
    assert_eq!(all[0]["edit"]["changes"][&uri][0]["newText"], json!(fixed));
    client.notify("textDocument/didClose", &json!({ "textDocument": { "uri": uri } }));
    assert_eq!(client.diagnostics(), (Value::Null, vec![]));
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn superseded_change_is_not_checked() {
    let home = beads_home();
    let mut client = LspClient::start(&home, 2_000);
    client.open(&format!("{HEAD}---\nCount.\n"));
    assert_eq!(client.diagnostics().1, [] as [Value; 0]);
    let end = |line: u32, from: u32, to: u32| {
        let at = |character| json!({ "line": line, "character": character });
        json!({ "start": at(from), "end": at(to) })
    };
    // The first state of the line is not well-formed Markdown, and never reported.
    client.change(2, &json!([{ "range": end(4, 0, 6), "text": "```\n" }]));
    client.change(3, &json!([{ "range": end(4, 0, 3), "text": "😀 one " }]));
    client.change(
        4,
        &json!([{ "range": end(4, 2, 6), "text": "" }, { "range": end(4, 9, 9), "text": " x " }]),
    );
    let (version, found) = client.diagnostics();
    assert_eq!((version, rules(&found)), (json!(4), vec!["trailing-whitespace"]));
    assert_eq!(found[0]["range"]["start"], json!({ "line": 4, "character": 5 }));
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn hover_describes_fields_and_rules() {
    let home = beads_home();
    let mut client = LspClient::start(&home, 0);
    client.open(&format!("{HEAD}---\nOpen `scripts\\count.py`.\n"));
    for (line, character, expected) in [
        (1, 2, Some("`name`: **Required.**")),
        (4, 8, Some("**backslash-path**: ")),
        (0, 0, None),
        (99, 99, None),
    ] {
        let params = json!({
            "textDocument": client.document(),
            "position": { "line": line, "character": character },
        });
        let reply = client.request("textDocument/hover", &params);
        match expected {
            Some(start) => {
                let text = reply["result"]["contents"]["value"].as_str().unwrap();
                assert!(text.starts_with(start), "{text}");
            }
            None => assert_eq!(reply["result"], Value::Null),
        }
    }
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn formatting_replaces_frontmatter_alone() {
    let home = beads_home();
    let mut client = LspClient::start(&home, 0);
    let body = "---\nCount.\n";
    client.open(&format!("---\r\ndescription:   Counts beads.\nname: 'beads'\n{body}"));
    let params = json!({ "textDocument": client.document(), "options": {} });
    let edits = client.request("textDocument/formatting", &params);
    let edit = &edits["result"][0];
    assert_eq!(edit["newText"], "---\nname: beads\ndescription: Counts beads.\n---\n");
    assert_eq!(edit["range"]["end"], json!({ "line": 4, "character": 0 }));
    client.change(2, &json!([{ "text": "---\nname: x\nname: y\n---\n" }]));
    let failed = client.request("textDocument/formatting", &params);
    assert_eq!(failed["error"]["code"], -32803, "{failed}");
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn policy_applies_and_reloads_when_saved() {
    let home = beads_home();
    let mut client = LspClient::start(&home, 0);
    client.open(&format!("{HEAD}type: x\n---\nCount.\n"));
    assert_eq!(rules(&client.diagnostics().1), ["frontmatter.unknownField"]);
    home.write("skillhost-lint.toml", "allowed-fields = [\"type\"]\n");
    client.notify("textDocument/didSave", &json!({ "textDocument": client.document() }));
    assert_eq!(client.diagnostics().1, [] as [Value; 0]);
    home.write("skillhost-lint.toml", "x = 1\n");
    client.notify("workspace/didChangeWatchedFiles", &json!({ "changes": [] }));
    assert_eq!(rules(&client.diagnostics().1), ["frontmatter.unknownField"]);
    let shown = client.read();
    assert_eq!(shown["method"], "window/showMessage");
    let message = shown["params"]["message"].as_str().unwrap();
    assert!(message.contains("skillhost-lint.toml:1:1: unknown key `x`"), "{message}");
    // The policy itself is checked as well.
    let uri = format!("file://{}", home.path("skillhost-lint.toml").display());
    let item = json!({ "uri": uri, "version": 1, "text": "profil = 1\n" });
    client.notify("textDocument/didOpen", &json!({ "textDocument": item }));
    let (_, found) = client.diagnostics();
    assert!(found[0]["message"].as_str().unwrap().contains("did you mean `profile`?"));
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn policy_in_settings_applies_and_is_checked() {
    let home = beads_home().settings("lint:\n  allowed-fields: [type]\n");
    let mut client = LspClient::start(&home, 0);
    client.open(&format!("{HEAD}type: x\n---\nCount.\n"));
    assert_eq!(client.diagnostics().1, [] as [Value; 0]);
    let uri = format!("file://{}", home.path("skillhost.yaml").display());
    let item = json!({ "uri": uri, "version": 1, "text": "models: {}\nlint: {profil: x}\n" });
    client.notify("textDocument/didOpen", &json!({ "textDocument": item }));
    let (_, found) = client.diagnostics();
    assert!(found[0]["message"].as_str().unwrap().contains("did you mean `profile`?"));
    assert_eq!(found[0]["range"]["start"], json!({ "line": 1, "character": 7 }));
    home.write("skillhost-lint.toml", "");
    client.notify("workspace/didChangeWatchedFiles", &json!({ "changes": [] }));
    let message = loop {
        let shown = client.read();
        if shown["method"] == "window/showMessage" {
            break shown["params"]["message"].as_str().unwrap().to_owned();
        }
    };
    assert!(message.contains("skillhost-lint.toml next to it both have a policy"), "{message}");
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn malformed_messages_do_not_end_session() {
    let home = beads_home();
    let mut client = LspClient::start(&home, 0);
    client.send_bytes(b"Content-Length: 3\r\n\r\n{,}Content-Length: x\r\n\r\n");
    for _ in 0..2 {
        let reply = client.read();
        assert_eq!((&reply["id"], &reply["error"]["code"]), (&Value::Null, &json!(-32700)));
    }
    client.send_bytes(&LspClient::frame(&json!([1, 2])));
    assert_eq!(client.read()["error"]["code"], -32600);
    let unknown = client.request("textDocument/rename", &json!({}));
    assert_eq!(unknown["error"]["code"], -32601);
    let invalid = client.request("textDocument/hover", &json!({ "position": -1 }));
    assert_eq!(invalid["error"]["code"], -32602);
    client.notify("textDocument/didOpen", &json!({ "textDocument": 7 }));
    client.change(5, &json!([{ "text": "unknown document" }]));
    client.open("\u{0}---\r\r\n");
    assert!(!client.diagnostics().1.is_empty());
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn session_without_shutdown_exits_with_failure() {
    let home = beads_home();
    let mut client = LspClient::start(&home, 0);
    client.input = None;
    assert_eq!(client.child.wait().unwrap().code(), Some(1));
    let before = fs::read(home.path("beads/SKILL.md")).unwrap();
    assert_eq!(before, format!("{HEAD}---\nCount.\n").into_bytes(), "nothing is written");
}
