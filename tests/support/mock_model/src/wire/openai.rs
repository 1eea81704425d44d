//! OpenAI's Chat Completions.

use serde_json::{Value, json};

use super::data;
use crate::step::{Reply, Tokens, halves};

fn stop(reply: &Reply) -> &'static str {
    match (reply.short, reply.calls.is_empty()) {
        (true, _) => "length",
        (false, true) => "stop",
        (false, false) => "tool_calls",
    }
}

fn usage(tokens: Tokens) -> Value {
    json!({
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
    })
}

pub(super) fn whole(model: &str, reply: &Reply) -> Value {
    let calls: Vec<_> = reply
        .calls
        .iter()
        .map(|call| {
            let function = json!({"name": call.name, "arguments": call.arguments});
            json!({"id": call.id, "type": "function", "function": function})
        })
        .collect();
    let mut message = json!({"role": "assistant", "content": reply.text});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    if !reply.reasoning.is_empty() {
        message["reasoning_content"] = reply.reasoning.clone().into();
    }
    let choice = json!({"index": 0, "message": message, "finish_reason": stop(reply)});
    let mut body = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": model,
        "choices": [choice],
    });
    if let Some(tokens) = reply.usage {
        body["usage"] = usage(tokens);
    }
    body
}

pub(super) fn pieces(model: &str, reply: &Reply) -> Vec<String> {
    let chunk = |delta: Value, stop: Option<&str>| {
        data(&json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": stop}],
        }))
    };
    let mut pieces = vec![chunk(json!({"role": "assistant", "content": ""}), None)];
    for part in halves(&reply.reasoning) {
        pieces.push(chunk(json!({"reasoning_content": part}), None));
    }
    for part in halves(&reply.text) {
        pieces.push(chunk(json!({"content": part}), None));
    }
    for (index, call) in reply.calls.iter().enumerate() {
        let function = json!({"name": call.name, "arguments": ""});
        let begin =
            json!({"index": index, "id": call.id, "type": "function", "function": function});
        pieces.push(chunk(json!({"tool_calls": [begin]}), None));
        for part in halves(&call.arguments) {
            let more = json!({"index": index, "function": {"arguments": part}});
            pieces.push(chunk(json!({"tool_calls": [more]}), None));
        }
    }
    pieces.push(chunk(json!({}), Some(stop(reply))));
    if let Some(tokens) = reply.usage {
        pieces.push(data(&json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": model,
            "choices": [], "usage": usage(tokens),
        })));
    }
    pieces.push("data: [DONE]\n\n".to_owned());
    pieces
}
