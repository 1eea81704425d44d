//! Gemini's generateContent.

use serde_json::{Value, json};

use super::{as_json, data};
use crate::step::{Reply, halves};

fn body(model: &str, parts: &[Value], last: Option<&Reply>) -> Value {
    let content = json!({"role": "model", "parts": parts});
    let mut candidate = json!({"content": content, "index": 0});
    let mut body = json!({"modelVersion": model});
    if let Some(reply) = last {
        candidate["finishReason"] = if reply.short { "MAX_TOKENS" } else { "STOP" }.into();
        if let Some(tokens) = reply.usage {
            body["usageMetadata"] = json!({
                "promptTokenCount": tokens.input,
                "cachedContentTokenCount": tokens.cached,
                "candidatesTokenCount": tokens.output,
                "totalTokenCount": tokens.input + tokens.output,
            });
        }
    }
    body["candidates"] = json!([candidate]);
    body
}

fn calls(reply: &Reply) -> Vec<Value> {
    let calls = reply.calls.iter();
    // Ids are not part of this wire, as most of its models speak it.
    let part =
        |name: &str, arguments| json!({"functionCall": {"name": name, "args": as_json(arguments)}});
    calls.map(|call| part(&call.name, &call.arguments)).collect()
}

pub(super) fn whole(model: &str, reply: &Reply) -> Value {
    let mut parts = Vec::new();
    if !reply.reasoning.is_empty() {
        parts.push(json!({"text": reply.reasoning, "thought": true}));
    }
    if !reply.text.is_empty() {
        parts.push(json!({"text": reply.text}));
    }
    parts.extend(calls(reply));
    body(model, &parts, Some(reply))
}

pub(super) fn pieces(model: &str, reply: &Reply) -> Vec<String> {
    let mut pieces = Vec::new();
    for part in halves(&reply.reasoning) {
        pieces.push(data(&body(model, &[json!({"text": part, "thought": true})], None)));
    }
    for part in halves(&reply.text) {
        pieces.push(data(&body(model, &[json!({"text": part})], None)));
    }
    if !reply.calls.is_empty() {
        pieces.push(data(&body(model, &calls(reply), None)));
    }
    pieces.push(data(&body(model, &[json!({"text": ""})], Some(reply))));
    pieces
}
