//! Tests of the Python template of the skill extension-development.
#![expect(clippy::unwrap_used, reason = "a failed setup fails its test")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use skillhost_manifest::ExtensionId;
use skillhost_payload::{ApprovalPolicy, CallContext};
use skillhost_process::{ProcessSpec, ProcessSupervisor};
use skillhost_sandbox::ChildContainment;

/// Returns the Python interpreter, or `None` with a notice: only these tests need more than Rust.
fn python() -> Option<PathBuf> {
    let found = test_support::program("python3");
    if found.is_none() {
        let _ = writeln!(std::io::stderr(), "SKIPPED: python3 not found");
    }
    found
}

fn template() -> PathBuf {
    let templates = "../../sandbox/skills/extension-development/templates/process-python";
    Path::new(env!("CARGO_MANIFEST_DIR")).join(templates)
}

/// Sends lines to the server and returns its responses and its standard error.
fn exchange(python: &Path, lines: &[&str]) -> (Vec<Value>, String) {
    let mut child = Command::new(python)
        .args(["-B", "server.py"])
        .current_dir(template())
        .env_clear()
        .env("SKILLHOST_CONFIG", r#"{"most_words": 3}"#)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(format!("{}\n", lines.join("\n")).as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    (stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), stderr)
}

#[test]
fn template_answers_every_request() {
    let Some(python) = python() else { return };
    let call = |id: u32, name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
    };
    let lines = [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":"two","method":"ping"}"#,
        "no JSON",
        "[]",
        "",
        r#"{"jsonrpc":"2.0","id":3,"method":"resources/list"}"#,
        &call(4, "count_words", json!({"text": "zwei Wörter"})),
        &call(5, "count_words", json!({})),
        &call(6, "count_words", json!({"text": "x", "txet": "y"})),
        &call(7, "other", json!({})),
        &call(8, "count_words", json!({"text": "one two three four"})),
        &call(9, "count_words", json!({"text": 5})),
    ];
    let (answers, stderr) = exchange(&python, &lines);
    let error = |id: Value, code: i32, message: &str| json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
    let result = |id: Value, result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
    let failed = |id: u32, text: &str| {
        let content = json!([{"type": "text", "text": text}]);
        result(json!(id), json!({"content": content, "isError": true}))
    };
    let expected = [
        result(
            json!(1),
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "server", "version": "1"},
            }),
        ),
        result(json!("two"), json!({})),
        error(Value::Null, -32700, "not a valid request"),
        error(Value::Null, -32700, "not a valid request"),
        error(json!(3), -32601, "method 'resources/list' not found"),
        result(
            json!(4),
            json!({
                "content": [{"type": "text", "text": "2 words, the longest is 'Wörter'"}],
                "isError": false,
                "structuredContent": {"words": 2, "longest": "Wörter"},
            }),
        ),
        error(json!(5), -32602, "missing arguments: ['text'], unknown arguments: []"),
        error(json!(6), -32602, "missing arguments: [], unknown arguments: ['txet']"),
        error(json!(7), -32602, "tool 'other' not found"),
        failed(8, "the text has more than 3 words; pass it in parts"),
        failed(9, "the tool failed: AttributeError: 'int' object has no attribute 'split'"),
    ];
    assert_eq!(answers, expected);
    assert!(stderr.contains("server.py\", line "), "missing source position: {stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn template_starts_in_kernel() {
    let Some(program) = python() else { return };
    let note = tempfile::tempdir().unwrap();
    let start = ProcessSpec {
        id: ExtensionId::new("word_count").unwrap(),
        program,
        arguments: vec!["-B".to_owned(), "server.py".to_owned()],
        folder: template(),
        environment: BTreeMap::from([("SKILLHOST_ID".to_owned(), "word_count".to_owned())]),
        handshake: Duration::from_secs(60),
        grace: Duration::from_secs(60),
        stop: Duration::from_secs(60),
        containment: ChildContainment::Plain {
            note: note.path().join("pid"),
            memory: 512 * 1024 * 1024,
        },
    };
    let process = ProcessSupervisor::default().start(start).await.unwrap();
    let tools = process.tools();
    let listed: Vec<_> = tools.iter().map(|tool| (&*tool.name, tool.needs_approval)).collect();
    assert_eq!(listed, [("count_words", ApprovalPolicy::Never)]);
    let arguments = json!({"text": "a bc"}).to_string();
    let output = process.invoke(&CallContext::default(), "count_words", &arguments).await.unwrap();
    assert_eq!(output.text, "2 words, the longest is 'bc'");
    process.health().await.unwrap();
    process.stop().await;
}
