//! Anthropic's Messages.

use serde_json::{Value, json};

use super::{as_json, event};
use crate::step::{Reply, Tokens, halves};

fn stop(reply: &Reply) -> &'static str {
    match (reply.short, reply.calls.is_empty()) {
        (true, _) => "max_tokens",
        (false, true) => "end_turn",
        (false, false) => "tool_use",
    }
}

fn usage(tokens: Tokens) -> Value {
    json!({
        // This wire counts the cached tokens separately.
        "input_tokens": tokens.input.saturating_sub(tokens.cached),
        "cache_read_input_tokens": tokens.cached,
        "output_tokens": tokens.output,
    })
}

pub(super) fn whole(model: &str, reply: &Reply) -> Value {
    let mut content = Vec::new();
    if !reply.reasoning.is_empty() {
        content.push(json!({
            "type": "thinking", "thinking": reply.reasoning, "signature": "signed",
        }));
    }
    if !reply.text.is_empty() {
        content.push(json!({"type": "text", "text": reply.text}));
    }
    for call in &reply.calls {
        let input = as_json(&call.arguments);
        content.push(json!({
            "type": "tool_use", "id": call.id, "name": call.name, "input": input,
        }));
    }
    let mut body = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": model,
        "content": content, "stop_reason": stop(reply), "stop_sequence": null,
    });
    if let Some(tokens) = reply.usage {
        body["usage"] = usage(tokens);
    }
    body
}

pub(super) fn pieces(model: &str, reply: &Reply) -> Vec<String> {
    let named = |name: &str, mut value: Value| {
        value["type"] = name.into();
        event(name, &value)
    };
    let mut begun = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": null, "stop_sequence": null,
    });
    if let Some(tokens) = reply.usage {
        begun["usage"] = usage(Tokens { output: 1, ..tokens });
    }
    let mut pieces =
        vec![named("message_start", json!({"message": begun})), named("ping", json!({}))];
    let mut index = 0;
    let mut block = |begin: Value, deltas: Vec<Value>| {
        let begin = json!({"index": index, "content_block": begin});
        pieces.push(named("content_block_start", begin));
        for delta in deltas {
            let delta = json!({"index": index, "delta": delta});
            pieces.push(named("content_block_delta", delta));
        }
        pieces.push(named("content_block_stop", json!({"index": index})));
        index += 1;
    };
    if !reply.reasoning.is_empty() {
        let mut deltas: Vec<_> = halves(&reply.reasoning)
            .into_iter()
            .map(|part| json!({"type": "thinking_delta", "thinking": part}))
            .collect();
        deltas.push(json!({"type": "signature_delta", "signature": "signed"}));
        block(json!({"type": "thinking", "thinking": "", "signature": ""}), deltas);
    }
    if !reply.text.is_empty() {
        let parts = halves(&reply.text).into_iter();
        let deltas = parts.map(|part| json!({"type": "text_delta", "text": part})).collect();
        block(json!({"type": "text", "text": ""}), deltas);
    }
    for call in &reply.calls {
        let parts = halves(&call.arguments).into_iter();
        let delta = |part| json!({"type": "input_json_delta", "partial_json": part});
        let begin = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
        block(begin, parts.map(delta).collect());
    }
    let mut ended = json!({"delta": {"stop_reason": stop(reply), "stop_sequence": null}});
    if let Some(tokens) = reply.usage {
        ended["usage"] = json!({"output_tokens": tokens.output});
    }
    pieces.push(named("message_delta", ended));
    pieces.push(named("message_stop", json!({})));
    pieces
}
