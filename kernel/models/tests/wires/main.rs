//! Tests of models with a mock server, for every protocol.
#![expect(clippy::unwrap_used, reason = "a failed setup fails its test")]

mod answers;
mod faults;
mod requests;
mod source;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use mock_model::{MockModel, Wire};
use serde_json::json;
use skillhost_conversation::{
    Message, ModelError, ModelProvider, ModelReply, ModelRequest, ModelSource, ModelTool,
    ModelToolCall, ReplyChunk,
};
use skillhost_home::ModelsSettings;
use skillhost_models::{KeySource, ModelRegistry, RetryTimer};

/// A key source with fixed keys.
struct FixedKeys(BTreeMap<&'static str, &'static str>);

impl KeySource for FixedKeys {
    fn key(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|&key| key.to_owned())
    }
}

/// A timer that records delays without waiting, and without jitter.
#[derive(Default)]
struct RecordedDelays(Mutex<Vec<u128>>);

impl RecordedDelays {
    fn taken(&self) -> Vec<u128> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[async_trait]
impl RetryTimer for RecordedDelays {
    async fn wait(&self, time: Duration) {
        self.0.lock().unwrap().push(time.as_millis());
    }

    fn jitter(&self) -> f64 {
        0.0
    }
}

/// Returns the models of a provider `mock` with additional settings (by default two retries), and
/// their recorded delays.
fn models(mock: &MockModel, wire: Wire, more: &str) -> (ModelRegistry, Arc<RecordedDelays>) {
    let (name, url) = (wire.name(), mock.base_url(wire));
    let more =
        if more.contains("retries") { more.to_owned() } else { format!("retries: 2, {more}") };
    let settings =
        format!("providers: {{mock: {{wire: {name}, base_url: '{url}', key: MOCK_KEY, {more}}}}}");
    models_of(&settings)
}

fn models_of(settings: &str) -> (ModelRegistry, Arc<RecordedDelays>) {
    let settings: ModelsSettings = serde_yaml::from_str(settings).unwrap();
    let keys = FixedKeys([("MOCK_KEY", "s3cret-key")].into());
    let waited = Arc::new(RecordedDelays::default());
    let models = ModelRegistry::new(settings, Path::new("/nowhere"), Arc::new(keys));
    (models.with_retry_timer(waited.clone()), waited)
}

fn model(
    mock: &MockModel,
    wire: Wire,
    more: &str,
) -> (Arc<dyn ModelProvider>, Arc<RecordedDelays>) {
    let (models, waited) = models(mock, wire, more);
    (models.resolve_model(Some("mock/test-model"), "agent").unwrap(), waited)
}

/// Sends a request; returns the reply and its chunks, with consecutive texts joined.
async fn send(
    model: &dyn ModelProvider,
    request: &ModelRequest,
) -> (Result<ModelReply, ModelError>, Vec<ReplyChunk>) {
    let mut chunks: Vec<ReplyChunk> = Vec::new();
    let reply = model
        .stream(request, &mut |chunk| match (chunks.last_mut(), &chunk) {
            (Some(ReplyChunk::Text(text)), ReplyChunk::Text(more)) => text.push_str(more),
            _ => chunks.push(chunk),
        })
        .await;
    (reply, chunks)
}

fn text(text: &str) -> ReplyChunk {
    ReplyChunk::Text(text.to_owned())
}

fn restart(reason: &str, may_be_charged: bool) -> ReplyChunk {
    ReplyChunk::ReplyRestarted { reason: reason.to_owned(), may_be_charged }
}

fn user(text: &str) -> Message {
    Message::User { text: text.to_owned() }
}

fn assistant(text: &str, calls: &[(&str, &str, &str)]) -> Message {
    let calls = calls.iter().map(|(id, name, arguments)| call(id, name, arguments)).collect();
    Message::Assistant { text: text.to_owned(), calls }
}

fn answer(id: &str, name: &str, text: &str) -> Message {
    Message::Tool {
        call_id: id.to_owned(),
        name: name.to_owned(),
        text: text.to_owned(),
        is_error: false,
    }
}

fn call(id: &str, name: &str, arguments: &str) -> ModelToolCall {
    ModelToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
}

/// Returns a first request with two tools, one of whose names is not valid for providers.
fn hello() -> ModelRequest {
    let tool = |name: &str| ModelTool {
        name: name.to_owned(),
        description: format!("Does {name}."),
        input_schema: json!({"type": "object", "properties": {"a": {"type": "integer"}}}),
    };
    ModelRequest {
        system: "Be kind.".to_owned(),
        messages: vec![user("Hello")],
        tools: vec![tool("files.read"), tool("look")],
        ..ModelRequest::default()
    }
}
