//! A process extension with the fixture tools of the conformance suite's scenarios `tasks-*`. Each
//! call has its own thread, so that a slow one delays no other.

use std::io::{BufRead as _, Write as _, stdin, stdout};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

fn main() {
    for line in stdin().lock().lines() {
        let Ok(line) = line else { break };
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        let id = message["id"].clone();
        match message["method"].as_str().unwrap_or_default() {
            "initialize" => answer(
                &id,
                &json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "task tools", "version": "1"},
                }),
            ),
            "tools/list" => answer(&id, &json!({"tools": tools()})),
            "tools/call" => {
                thread::spawn(move || call(&id, &message["params"]));
            }
            "ping" => answer(&id, &json!({})),
            _ => {}
        }
    }
}

fn tools() -> Value {
    let tool = |name: &str, task: &str, properties: Value| {
        json!({
            "name": name,
            "description": format!("Does {name}."),
            "inputSchema": {"type": "object", "properties": properties},
            // A repetition changes nothing: the tools have no effects.
            "annotations": {"readOnlyHint": true},
            "_meta": {"skillhost/task": task},
        })
    };
    let seconds = json!({"seconds": {"type": "number"}, "label": {"type": "string"}});
    let asked = json!({"name": {"type": "string", "x-skillhost-ask": "Your name?"}});
    json!([
        tool("greet", "never", json!({"name": {"type": "string"}})),
        tool("slow_compute", "may", seconds),
        tool("failing_job", "must", json!({})),
        tool("protocol_error_job", "may", json!({})),
        tool("confirm_delete", "may", json!({"filename": {"type": "string"}})),
        tool("multi_input", "may", json!({})),
        tool("test_tool_with_task", "must", asked),
    ])
}

fn call(id: &Value, params: &Value) {
    let arguments = &params["arguments"];
    let text = |key: &str| arguments[key].as_str().unwrap_or_default().to_owned();
    match params["name"].as_str().unwrap_or_default() {
        "greet" => complete(id, &format!("Hello, {}!", text("name")), false),
        "slow_compute" => {
            let seconds = arguments["seconds"].as_f64().unwrap_or_default();
            thread::sleep(Duration::try_from_secs_f64(seconds).unwrap_or_default());
            complete(id, &format!("computed {}", text("label")), false);
        }
        "failing_job" => {
            // Longer than the time in which the result would be the answer.
            thread::sleep(Duration::from_secs(1));
            complete(id, "the job failed", true);
        }
        "protocol_error_job" => {
            thread::sleep(Duration::from_secs(1));
            let error = json!({"code": -32603, "message": "the job panicked"});
            print(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
        "confirm_delete" => ask(id, params, &["confirm"]),
        "multi_input" => ask(id, params, &["first", "second"]),
        "test_tool_with_task" => {
            thread::sleep(Duration::from_secs(1));
            complete(id, &format!("Hello, {}!", text("name")), false);
        }
        _ => print(&json!({
            "jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "unknown tool"},
        })),
    }
}

/// Completes a call with the answers, or ends it with the questions.
fn ask(id: &Value, params: &Value, keys: &[&str]) {
    let responses = &params["inputResponses"];
    if keys.iter().all(|key| responses[*key].is_object()) {
        // Its own state, unchanged.
        let is_same = params["requestState"] == json!(keys.join("+"));
        return complete(id, &format!("answers: {responses}"), !is_same);
    }
    let form = json!({"type": "object", "properties": {"confirm": {"type": "boolean"}}});
    let request = |key: &&str| {
        let params = json!({
            "mode": "form", "message": format!("{key}?"), "requestedSchema": form,
        });
        ((*key).to_owned(), json!({"method": "elicitation/create", "params": params}))
    };
    let requests: serde_json::Map<_, _> = keys.iter().map(request).collect();
    answer(
        id,
        &json!({
            "resultType": "input_required",
            "inputRequests": requests,
            "requestState": keys.join("+"),
        }),
    );
}

fn complete(id: &Value, text: &str, is_error: bool) {
    answer(id, &json!({"content": [{"type": "text", "text": text}], "isError": is_error}));
}

fn answer(id: &Value, result: &Value) {
    print(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

fn print(message: &Value) {
    let mut out = stdout().lock();
    // Without a reader the process is about to be ended.
    let _ = writeln!(out, "{message}").and_then(|()| out.flush());
}
