//! Ollama's chat.

use serde_json::{Value, json};

use super::as_json;
use crate::step::{Reply, halves};

fn message(content: &str, thinking: &str, calls: &[Value]) -> Value {
    let mut message = json!({"role": "assistant", "content": content});
    if !thinking.is_empty() {
        message["thinking"] = thinking.into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    message
}

fn calls(reply: &Reply) -> Vec<Value> {
    let call = |name: &str, arguments| json!({"function": {"name": name, "arguments": as_json(arguments)}});
    reply.calls.iter().map(|it| call(&it.name, &it.arguments)).collect()
}

fn ended(model: &str, reply: &Reply, message: &Value) -> Value {
    let stop = if reply.short { "length" } else { "stop" };
    let mut body = json!({
        "model": model, "created_at": "1970-01-01T00:00:00Z", "message": message, "done": true,
        "done_reason": stop,
    });
    if let Some(tokens) = reply.usage {
        body["prompt_eval_count"] = tokens.input.into();
        body["prompt_eval_cached_count"] = tokens.cached.into();
        body["eval_count"] = tokens.output.into();
    }
    body
}

pub(super) fn whole(model: &str, reply: &Reply) -> Value {
    ended(model, reply, &message(&reply.text, &reply.reasoning, &calls(reply)))
}

pub(super) fn pieces(model: &str, reply: &Reply) -> Vec<String> {
    let line = |message: Value| {
        let created = "1970-01-01T00:00:00Z";
        let line =
            json!({"model": model, "created_at": created, "message": message, "done": false});
        format!("{line}\n")
    };
    let mut pieces = Vec::new();
    for part in halves(&reply.reasoning) {
        pieces.push(line(message("", part, &[])));
    }
    for part in halves(&reply.text) {
        pieces.push(line(message(part, "", &[])));
    }
    if !reply.calls.is_empty() {
        pieces.push(line(message("", "", &calls(reply))));
    }
    pieces.push(format!("{}\n", ended(model, reply, &message("", "", &[]))));
    pieces
}
