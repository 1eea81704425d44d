//! Tests of requests with every protocol.

use mock_model::{MockModel, Said, Step, Wire};
use serde_json::{Value, json};
use skillhost_conversation::{Message, ModelRequest, ModelSource as _};

use super::{answer, assistant, hello, model, models, models_of, send, user};

/// Returns a thread with two concurrent calls, one of which failed, and an invalid call.
fn long() -> ModelRequest {
    let messages = vec![
        user("Hello"),
        assistant("I look.", &[("c1", "files.read", "{\"a\":1}"), ("c2", "look", "{}")]),
        answer("c1", "files.read", "a text"),
        Message::Tool {
            call_id: "c2".to_owned(),
            name: "look".to_owned(),
            text: "nothing there".to_owned(),
            is_error: true,
        },
        assistant("", &[("call#look#0", "look", "{\"a\":")]),
        answer("call#look#0", "look", "not JSON"),
        assistant("", &[]),
        user("Go on"),
    ];
    ModelRequest { messages, ..hello() }
}

async fn body(wire: Wire, request: &ModelRequest, more: &str) -> Value {
    let mock = MockModel::with([Step::text("ok")]);
    let (model, _) = model(&mock, wire, more);
    send(&*model, request).await.0.unwrap();
    mock.requests().remove(0).body
}

#[tokio::test]
async fn thread_is_sent_completely() {
    for wire in Wire::ALL {
        let mock = MockModel::with([Step::text("ok")]);
        let (model, _) = model(&mock, wire, "");
        send(&*model, &long()).await.0.unwrap();
        let request = mock.requests().remove(0);
        assert_eq!(request.model, "test-model", "{wire:?}");
        assert_eq!(request.system(), "Be kind.", "{wire:?}");
        assert_eq!(request.tools(), ["files_read", "look"], "{wire:?}");
        let calls = |text: &str, calls: &[&str]| Said {
            calls: calls.iter().map(|&call| call.to_owned()).collect(),
            ..Said::new("assistant", text)
        };
        let expected = [
            Said::new("user", "Hello"),
            calls("I look.", &["files_read {\"a\":1}", "look {}"]),
            Said::new("tool", "a text"),
            Said::new("tool", "nothing there"),
            calls("", &["look {\"not_json\":\"{\\\"a\\\":\"}"]),
            Said::new("tool", "not JSON"),
            Said::new("user", "Go on"),
        ];
        assert_eq!(request.messages(), expected, "{wire:?}");
    }
}

#[tokio::test]
async fn key_follows_the_protocol() {
    for wire in Wire::ALL {
        let mock = MockModel::with([Step::text("ok"), Step::text("ok")]);
        let (keyed, _) = model(&mock, wire, "");
        send(&*keyed, &hello()).await.0.unwrap();
        assert_eq!(mock.requests()[0].key(), Some("s3cret-key"), "{wire:?}");
        let (models, _) = models_of(&format!(
            "providers: {{mock: {{wire: {}, base_url: '{}'}}}}",
            wire.name(),
            mock.base_url(wire)
        ));
        let bare = models.resolve_model(Some("mock/test-model"), "agent").unwrap();
        send(&*bare, &hello()).await.0.unwrap();
        let bare = &mock.requests()[1];
        assert_ne!(bare.key(), Some("s3cret-key"), "{wire:?}");
        if matches!(wire, Wire::Openai | Wire::Ollama) {
            assert_eq!(bare.headers.get("authorization"), None, "{wire:?}");
        }
    }
}

#[tokio::test]
async fn protocol_specific_fields_are_sent() {
    let anthropic = body(Wire::Anthropic, &long(), "").await;
    let result = json!({
        "type": "tool_result", "tool_use_id": "c2", "content": "nothing there", "is_error": true,
    });
    // Both results are in one message, and the ids are valid for the protocol.
    assert_eq!(anthropic["messages"][2]["content"][1], result);
    assert_eq!(anthropic["messages"][3]["content"][0]["id"], "call_look_0");
    assert_eq!(anthropic["system"][0]["cache_control"], json!({"type": "ephemeral"}));

    let openai = body(Wire::Openai, &long(), "").await;
    assert_eq!(openai["stream_options"], json!({"include_usage": true}));
    assert_eq!(openai["messages"][2]["tool_calls"][0]["id"], "c1");

    let responses = body(Wire::OpenaiResponses, &long(), "").await;
    // A model without reasoning rejects a request for it.
    assert_eq!((&responses["reasoning"], &responses["store"]), (&Value::Null, &json!(false)));

    let gemini = body(Wire::Gemini, &long(), "").await;
    assert_eq!(gemini["generationConfig"]["thinkingConfig"], Value::Null);
    // An id that Gemini has not assigned is not sent to it.
    assert_eq!(gemini["contents"][3]["parts"][0]["functionCall"]["id"], Value::Null);
}

#[tokio::test]
async fn parameters_follow_the_protocol() {
    let parameters = json!({"temperature": 0.5, "max_tokens": 77, "stop": ["END"], "min_p": 0.25});
    let request = ModelRequest { parameters, parallel_tool_calls: Some(false), ..hello() };
    let openai = body(Wire::Openai, &request, "").await;
    let found = [&openai["temperature"], &openai["max_tokens"], &openai["stop"], &openai["min_p"]];
    assert_eq!(found, [&json!(0.5), &json!(77), &json!(["END"]), &json!(0.25)]);
    assert_eq!(openai["parallel_tool_calls"], false);
    let anthropic = body(Wire::Anthropic, &request, "").await;
    assert_eq!((&anthropic["max_tokens"], &anthropic["min_p"]), (&json!(77), &json!(0.25)));
    assert_eq!(anthropic["tool_choice"]["disable_parallel_tool_use"], true);
    let gemini = body(Wire::Gemini, &request, "").await;
    assert_eq!(gemini["generationConfig"]["maxOutputTokens"], 77);
    let ollama = body(Wire::Ollama, &request, "").await;
    assert_eq!(ollama["options"]["num_predict"], 77);
    let responses = body(Wire::OpenaiResponses, &request, "").await;
    assert_eq!(responses["max_output_tokens"], 77);
}

#[tokio::test]
async fn model_name_is_sent_unchanged() {
    for name in ["mistral-medium", "org/model::v2", "a-high"] {
        let mock = MockModel::with([Step::text("ok")]);
        let (models, _) = models(&mock, Wire::Openai, "");
        let model = models.resolve_model(Some(&format!("mock/{name}")), "agent").unwrap();
        send(&*model, &hello()).await.0.unwrap();
        let body = &mock.requests()[0].body;
        assert_eq!((&body["model"], &body["reasoning_effort"]), (&json!(name), &Value::Null));
    }
}

#[tokio::test]
async fn calls_become_text_without_tools() {
    for wire in Wire::ALL {
        let mock = MockModel::with([Step::text("ok")]);
        let (model, _) = model(&mock, wire, "");
        let request = ModelRequest { tools: Vec::new(), ..long() };
        send(&*model, &request).await.0.unwrap();
        let messages = mock.requests()[0].messages();
        let text = "I look.\n[calls files.read {\"a\":1}]\n[calls look {}]";
        assert_eq!(messages[1], Said::new("assistant", text), "{wire:?}");
        assert_eq!(messages[2], Said::new("user", "[files.read answers]\na text"), "{wire:?}");
    }
}

#[tokio::test]
async fn signed_reasoning_is_returned() {
    let mock = MockModel::with([
        Step::calls("look", "{}").reasoning("Let me look."),
        Step::text("ok"),
        Step::text("ok"),
    ]);
    let (models, _) = models(&mock, Wire::Anthropic, "");
    let mut request = hello();
    request.parameters = json!({"reasoning_effort": "low"});
    let model = models.resolve_model(Some("mock/claude-sonnet-4-5"), "agent").unwrap();
    let reply = send(&*model, &request).await.0.unwrap();
    let id = reply.calls[0].id.clone();
    request.messages.push(Message::Assistant { text: reply.text, calls: reply.calls });
    request.messages.push(answer(&id, "look", "a text"));
    // Another run resolves the model again.
    let model = models.resolve_model(Some("mock/claude-sonnet-4-5"), "agent").unwrap();
    send(&*model, &request).await.0.unwrap();
    let sent = &mock.requests()[1].body;
    let thought = json!({"type": "thinking", "thinking": "Let me look.", "signature": "signed"});
    assert_eq!(sent["messages"][1]["content"][0], thought);
    assert_ne!(sent["thinking"], Value::Null);

    // The reasoning of another process is lost, so the request is sent without reasoning.
    let (models, _) = super::models(&mock, Wire::Anthropic, "");
    let model = models.resolve_model(Some("mock/claude-sonnet-4-5"), "agent").unwrap();
    send(&*model, &request).await.0.unwrap();
    let sent = &mock.requests()[2].body;
    assert_eq!(sent["messages"][1]["content"][0]["type"], "tool_use");
    assert_eq!(sent["thinking"], Value::Null);
}
