//! OpenAI's Responses.

use serde_json::{Value, json};

use super::event;
use crate::step::{Reply, halves};

fn response(model: &str, reply: &Reply, status: &str, output: &[Value]) -> Value {
    let mut body = json!({
        "id": "resp_1", "object": "response", "created_at": 0, "model": model, "status": status,
        "output": output, "error": null,
    });
    if let Some(tokens) = reply.usage {
        body["usage"] = json!({
            "input_tokens": tokens.input,
            "input_tokens_details": {"cached_tokens": tokens.cached},
            "output_tokens": tokens.output,
            "output_tokens_details": {
                "reasoning_tokens": if reply.reasoning.is_empty() { 0 } else { tokens.output },
            },
            "total_tokens": tokens.input + tokens.output,
        });
    }
    body
}

fn items(reply: &Reply) -> Vec<Value> {
    let mut items = Vec::new();
    if !reply.reasoning.is_empty() {
        items.push(json!({
            "type": "reasoning", "id": "rs_1",
            "summary": [{"type": "summary_text", "text": reply.reasoning}],
        }));
    }
    if !reply.text.is_empty() {
        items.push(json!({
            "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": reply.text, "annotations": []}],
        }));
    }
    for call in &reply.calls {
        items.push(json!({
            "type": "function_call", "id": format!("fc_{}", call.id), "call_id": call.id,
            "name": call.name, "arguments": call.arguments, "status": "completed",
        }));
    }
    items
}

fn status(reply: &Reply) -> &'static str {
    if reply.short { "incomplete" } else { "completed" }
}

pub(super) fn whole(model: &str, reply: &Reply) -> Value {
    response(model, reply, status(reply), &items(reply))
}

pub(super) fn pieces(model: &str, reply: &Reply) -> Vec<String> {
    let named = |name: &str, mut value: Value| {
        value["type"] = name.into();
        event(name, &value)
    };
    let items = items(reply);
    let begun = response(model, reply, "in_progress", &[]);
    let mut pieces = vec![named("response.created", json!({"response": begun}))];
    for (index, item) in items.iter().enumerate() {
        let mut empty = item.clone();
        let (delta, text) = match item["type"].as_str() {
            Some("function_call") => {
                empty["arguments"] = "".into();
                ("response.function_call_arguments.delta", item["arguments"].as_str())
            }
            Some("message") => {
                empty["content"] = json!([]);
                ("response.output_text.delta", item["content"][0]["text"].as_str())
            }
            _ => ("response.reasoning_summary_text.delta", item["summary"][0]["text"].as_str()),
        };
        let added = json!({"output_index": index, "item": empty});
        pieces.push(named("response.output_item.added", added));
        for part in halves(text.unwrap_or_default()) {
            pieces.push(named(delta, json!({"output_index": index, "delta": part})));
        }
        let done = json!({"output_index": index, "item": item});
        pieces.push(named("response.output_item.done", done));
    }
    let status = status(reply);
    let ended = response(model, reply, status, &items);
    pieces.push(named(&format!("response.{status}"), json!({"response": ended})));
    pieces
}
