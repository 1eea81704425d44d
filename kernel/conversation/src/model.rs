//! The kernel's interface to models: a request goes in, a reply comes out.
//!
//! Implementations of [`ModelProvider`] handle protocols, keys and retries.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skillhost_home::{ModelsSettings, TokenPrice};

use crate::usage::TokenUsage;

/// A model that can receive requests.
#[async_trait]
pub trait ModelProvider: Send + Sync {
    /// Returns the metadata of the model.
    fn metadata(&self) -> &ModelMetadata;

    /// Returns the reply to a request. Dropping the future cancels the request.
    ///
    /// # Errors
    /// [`ModelError`], after the retries that its kind allows.
    async fn complete(&self, request: &ModelRequest) -> Result<ModelReply, ModelError> {
        self.stream(request, &mut |_| ()).await
    }

    /// Returns the reply to a request, and passes on chunks as they arrive. After a failure in the
    /// middle, [`ReplyChunk::ReplyRestarted`] discards all earlier chunks.
    ///
    /// # Errors
    /// As for [`ModelProvider::complete`].
    async fn stream(
        &self,
        request: &ModelRequest,
        on_chunk: &mut (dyn FnMut(ReplyChunk) + Send),
    ) -> Result<ModelReply, ModelError>;
}

/// A source of models for agents.
pub trait ModelSource: Send + Sync {
    /// Resolves a model by name (`provider/model`), or the one that the settings choose for an
    /// agent.
    ///
    /// # Errors
    /// [`ModelError`] of the kind [`ModelErrorKind::Unknown`] or [`ModelErrorKind::Key`].
    fn resolve_model(
        &self,
        name: Option<&str>,
        agent: &str,
    ) -> Result<Arc<dyn ModelProvider>, ModelError>;

    /// Returns the names of the keys of providers that this source lacks, sorted.
    fn missing_keys(&self) -> Vec<String> {
        Vec::new()
    }

    /// Puts other settings in force and reads the keys again. Models that were resolved before keep
    /// theirs.
    fn settings_changed(&self, _settings: &ModelsSettings) {}
}

/// The metadata of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelMetadata {
    /// The name, `provider/model`.
    pub name: String,
    /// The tokens that fit into one request and its reply; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u32>,
    /// The price of tokens; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<TokenPrice>,
}

/// A request to a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// The instructions and context.
    pub system: String,
    /// The messages, oldest first.
    pub messages: Vec<Message>,
    /// The tools that the model may call.
    pub tools: Vec<ModelTool>,
    /// True if the model may call several tools at once; `None` for the model's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// The parameters of the model from the manifest (such as `temperature`); a JSON object.
    #[serde(default)]
    pub parameters: Value,
}

/// A message of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// A message of a user, or the task of a run.
    User {
        /// The text.
        text: String,
    },
    /// A reply of the model.
    Assistant {
        /// The text; may be empty next to calls.
        text: String,
        /// The tool calls.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ModelToolCall>,
    },
    /// A tool result.
    Tool {
        /// The id of the call.
        call_id: String,
        /// The name of the tool.
        name: String,
        /// The text for the model.
        text: String,
        /// True if the call failed.
        #[serde(default)]
        is_error: bool,
    },
}

/// A tool as described to a model. Names are the kernel's; a protocol that forbids one maps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelTool {
    /// The name.
    pub name: String,
    /// The description of its purpose and use.
    pub description: String,
    /// The JSON Schema of the arguments.
    pub input_schema: Value,
}

/// A tool call by a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelToolCall {
    /// The id that links the result to the call; unique within a reply.
    pub id: String,
    /// The name of the tool, as the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them; intended as JSON, but not checked.
    pub arguments: String,
}

/// A reply of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelReply {
    /// The text.
    pub text: String,
    /// The tool calls.
    pub calls: Vec<ModelToolCall>,
    /// The token usage.
    pub usage: TokenUsage,
    /// The reason why the reply ended.
    pub stop: StopReason,
    /// True if the reply has reasoning and no text.
    pub only_reasoning: bool,
}

/// The reason why a reply ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The reply was complete, or has tool calls.
    #[default]
    End,
    /// The output limit was reached.
    Length,
    /// The provider filtered the reply.
    Filtered,
}

/// A chunk of a streamed reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyChunk {
    /// The next part of the text.
    Text(String),
    /// The request failed and is repeated; earlier chunks are discarded.
    ReplyRestarted {
        /// The reason.
        reason: String,
        /// Whether the provider may have worked on the failed request: its reply broke off. A provider
        /// that is busy or not reachable has not.
        may_be_charged: bool,
    },
    /// The delay after a failure is over, and the request is sent again.
    RequestRepeated,
}

/// The kind of a model error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelErrorKind {
    /// The model or provider is unknown.
    Unknown,
    /// The key is missing or rejected.
    Key,
    /// The request does not fit into the model's window.
    TooLong,
    /// The provider is busy; all retries failed.
    Busy,
    /// The provider timed out.
    Timeout,
    /// The provider was not reached, or its response was cut off.
    Network,
    /// The provider rejected the request.
    Refused,
    /// The response violates the protocol.
    Protocol,
}

/// An error returned by a model provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{model}: {message}")]
pub struct ModelError {
    /// The kind of the error.
    pub kind: ModelErrorKind,
    /// The model, `provider/model`.
    pub model: String,
    /// The message. Never contains a key.
    pub message: String,
    /// The hint for the operator; may be empty.
    pub hint: String,
}

/// A source without models, for kernels whose program sets none.
#[derive(Debug, Clone, Copy)]
pub struct NoModels;

impl ModelSource for NoModels {
    fn resolve_model(
        &self,
        name: Option<&str>,
        _: &str,
    ) -> Result<Arc<dyn ModelProvider>, ModelError> {
        Err(ModelError {
            kind: ModelErrorKind::Unknown,
            model: name.unwrap_or("default").to_owned(),
            message: "no models are configured".to_owned(),
            hint: String::new(),
        })
    }
}
