//! Models against a server that plays their providers, one wire after the other.
#![expect(clippy::unwrap_used, reason = "a scene that cannot be set up fails its test")]

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
use skillhost_kernel::{
    Message, ModelError, ModelProvider, ModelReply, ModelRequest, ModelSource, ModelTool,
    ModelToolCall, ModelsSettings, ReplyChunk,
};
use skillhost_models::{KeySource, ModelRegistry, RetryTimer};

/// Keys of a table.
struct Table(BTreeMap<&'static str, &'static str>);

impl KeySource for Table {
    fn key(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|&key| key.to_owned())
    }
}

/// Time that does not pass, and chance that is none: it is written down how long was waited.
#[derive(Default)]
struct Waited(Mutex<Vec<u128>>);

impl Waited {
    fn taken(&self) -> Vec<u128> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[async_trait]
impl RetryTimer for Waited {
    async fn wait(&self, time: Duration) {
        self.0.lock().unwrap().push(time.as_millis());
    }

    fn jitter(&self) -> f64 {
        0.0
    }
}

/// Models of a provider `mock` on a server, with more settings of the provider (two retries
/// without any); and how long they waited.
fn models(mock: &MockModel, wire: Wire, more: &str) -> (ModelRegistry, Arc<Waited>) {
    let (name, url) = (wire.name(), mock.base_url(wire));
    let more =
        if more.contains("retries") { more.to_owned() } else { format!("retries: 2, {more}") };
    let settings =
        format!("providers: {{mock: {{wire: {name}, base_url: '{url}', key: MOCK_KEY, {more}}}}}");
    models_of(&settings)
}

fn models_of(settings: &str) -> (ModelRegistry, Arc<Waited>) {
    let settings: ModelsSettings = serde_yaml::from_str(settings).unwrap();
    let keys = Table([("MOCK_KEY", "s3cret-key")].into());
    let waited = Arc::new(Waited::default());
    let models = ModelRegistry::new(settings, Path::new("/nowhere"), Arc::new(keys));
    (models.with_retry_timer(waited.clone()), waited)
}

fn model(mock: &MockModel, wire: Wire, more: &str) -> (Arc<dyn ModelProvider>, Arc<Waited>) {
    let (models, waited) = models(mock, wire, more);
    (models.resolve_model(Some("mock/test-model"), "agent").unwrap(), waited)
}

/// Asks a model; returns what came in pieces too, texts put together.
async fn asked(
    model: &dyn ModelProvider,
    request: &ModelRequest,
) -> (Result<ModelReply, ModelError>, Vec<ReplyChunk>) {
    let mut pieces: Vec<ReplyChunk> = Vec::new();
    let reply = model
        .stream(request, &mut |piece| match (pieces.last_mut(), &piece) {
            (Some(ReplyChunk::Text(text)), ReplyChunk::Text(more)) => text.push_str(more),
            _ => pieces.push(piece),
        })
        .await;
    (reply, pieces)
}

fn text(text: &str) -> ReplyChunk {
    ReplyChunk::Text(text.to_owned())
}

fn restart(reason: &str) -> ReplyChunk {
    ReplyChunk::ReplyRestarted { reason: reason.to_owned() }
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

/// A first request: one message, two tools, one of whose names no wire takes.
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
