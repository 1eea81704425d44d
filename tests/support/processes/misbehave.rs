//! A hand-written process extension for tests. Its first argument selects the start, its tools
//! select the later behavior. It misbehaves in every way that the kernel has to survive.

use std::fs;
use std::io::{BufRead as _, Write as _, stdin, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

use serde_json::{Value, json};

const TOOLS: [&str; 12] = [
    "echo", "shout", "fail", "refuse", "whoami", "crash", "hang", "garbage", "huge", "wait",
    "spawn", "hoard",
];

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    match mode.as_str() {
        "panic" => panic!("this process was made to fail"),
        "garbage" => print("Starting up, please wait\u{1b}[2J"),
        "silent" => loop {
            std::thread::park();
        },
        // Once, and then as it should.
        "flaky" if !data().join("tried").exists() => {
            let _ = fs::write(data().join("tried"), "");
            eprint("the first start fails");
            exit(9);
        }
        "keyed" => {
            let Some(key) = std::env::var_os("SAMPLE_KEY") else {
                eprint("SAMPLE_KEY is not set");
                exit(3);
            };
            // Imitates programs that fetch dependencies at the start.
            let cache = std::env::var_os("XDG_CACHE_HOME").unwrap_or_default();
            let file = Path::new(&cache).join("starts");
            let starts = fs::read_to_string(&file).unwrap_or_default();
            let _ = fs::write(file, format!("{starts}{}\n", key.display()));
        }
        // Once, then never again.
        "once" if data().join("started").exists() => {
            eprint("the second start fails");
            exit(9);
        }
        _ => {}
    }
    let _ = fs::write(data().join("started"), std::process::id().to_string());
    for line in stdin().lock().lines() {
        let Ok(line) = line else { break };
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        let id = message["id"].clone();
        match message["method"].as_str().unwrap_or_default() {
            "initialize" if mode == "refusing" => refuse(&id, -32603, "not today"),
            "initialize" => answer(
                &id,
                &json!({
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "misbehave", "version": "3.1"},
                }),
            ),
            "tools/list" if mode == "crowded" => {
                let tools: Vec<_> = (0..200).map(|n| tool(&format!("t{n}"))).collect();
                answer(&id, &json!({"tools": tools}));
            }
            "tools/list" if mode == "objekt" => {
                let mut broken = tool("measure");
                broken["inputSchema"]["properties"]["text"]["type"] = json!("objekt");
                answer(&id, &json!({"tools": [broken]}));
            }
            // The file is read at each call: one name per line, with an optional annotation.
            "tools/list" if mode == "listing" => {
                let file = std::env::args().nth(2).unwrap_or_default();
                let text = fs::read_to_string(file).unwrap_or_default();
                let tools: Vec<_> = text.lines().map(annotated).collect();
                answer(&id, &json!({"tools": tools}));
            }
            "tools/list" => list(&id, &message["params"]),
            "tools/call" => call(&id, &message["params"]),
            "notifications/cancelled" => {
                let _ = fs::write(data().join("cancelled"), "yes");
            }
            "ping" => answer(&id, &json!({})),
            _ => {}
        }
    }
    if mode == "deaf" {
        loop {
            std::thread::park();
        }
    }
    let _ = fs::write(data().join("ended"), "in order");
}

/// Lists the tools on two pages.
fn list(id: &Value, params: &Value) {
    let (first, second) = TOOLS.split_at(5);
    let tools = |names: &[&str]| names.iter().map(|name| tool(name)).collect::<Vec<_>>();
    match params["cursor"].as_str() {
        None => answer(id, &json!({"tools": tools(first), "nextCursor": "2"})),
        Some(_) => answer(id, &json!({"tools": tools(second)})),
    }
}

fn annotated(line: &str) -> Value {
    let (name, annotation) = line.split_once(' ').unwrap_or((line, ""));
    let mut tool = tool(name);
    if !annotation.is_empty() {
        tool["annotations"] = json!({annotation: true});
    }
    tool
}

fn tool(name: &str) -> Value {
    let mut tool = json!({
        "name": name,
        "description": format!("Does {name}."),
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    });
    match name {
        "echo" => tool["annotations"] = json!({"readOnlyHint": true}),
        "shout" => tool["_meta"] = json!({"skillhost/needs_approval": "always"}),
        _ => {}
    }
    tool
}

fn call(id: &Value, params: &Value) {
    let text = params["arguments"]["text"].as_str().unwrap_or_default();
    let said = |text: &str, is_error: bool| json!({"content": [{"type": "text", "text": text}], "isError": is_error});
    match params["name"].as_str().unwrap_or_default() {
        "echo" => answer(id, &said(text, false)),
        "shout" => answer(id, &said(&text.to_uppercase(), false)),
        "fail" => answer(id, &said("there is nothing to do", true)),
        "refuse" => refuse(id, -32602, "`text` is missing"),
        "whoami" => answer(
            id,
            &json!({"content": [], "structuredContent": {
                // In a namespace every first process has the same number.
                "instance": instance(),
                "pid": std::process::id(),
                "folder": std::env::current_dir().unwrap_or_default(),
                "environment": std::env::vars().collect::<std::collections::BTreeMap<_, _>>(),
            }}),
        ),
        "crash" => {
            eprint("about to end\nTypeError: it was made to fail");
            exit(7);
        }
        "hang" => loop {
            std::hint::spin_loop();
        },
        "garbage" => print("debug: here I am"),
        "huge" => print(&"x".repeat(5 * 1024 * 1024)),
        // Other requests are answered during the wait.
        "wait" => {}
        "spawn" => {
            // The number identifies the child in the list of all processes.
            let child = Command::new("sleep").arg(text).spawn();
            answer(id, &said(if child.is_ok() { "spawned" } else { "failed" }, false));
        }
        "hoard" => {
            let size = text.parse::<usize>().unwrap_or_default() * 1024 * 1024;
            let hoard = vec![1_u8; size];
            answer(id, &said(&hoard.iter().filter(|byte| **byte == 1).count().to_string(), false));
        }
        _ => refuse(id, -32601, "no such tool"),
    }
}

/// Returns a text that differs between processes.
fn instance() -> &'static str {
    static INSTANCE: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    INSTANCE.get_or_init(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        format!("{}-{}", std::process::id(), now.map(|now| now.as_nanos()).unwrap_or_default())
    })
}

fn data() -> PathBuf {
    Path::new(&std::env::var_os("SKILLHOST_DATA_DIR").unwrap_or_default()).to_owned()
}

fn answer(id: &Value, result: &Value) {
    print(&json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
}

fn refuse(id: &Value, code: i32, message: &str) {
    let error = json!({"code": code, "message": message});
    print(&json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string());
}

fn print(line: &str) {
    let mut output = stdout().lock();
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

fn eprint(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
