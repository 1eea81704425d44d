//! What the kernel knows of models: a conversation goes in, a reply comes out.
//!
//! Wires, keys and retries are the business of whoever implements [`ModelProvider`].

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A model that can be asked.
#[async_trait]
pub trait ModelProvider: Send + Sync {
    /// What is known of it.
    fn metadata(&self) -> &ModelMetadata;

    /// Answers a conversation. Dropping the future gives the request up.
    ///
    /// # Errors
    /// [`ModelError`], after whatever retries its kind allows.
    async fn complete(&self, request: &ModelRequest) -> Result<ModelReply, ModelError> {
        self.stream(request, &mut |_| ()).await
    }

    /// As [`ModelProvider::complete`], and hands on pieces of the reply as they come. After a
    /// failure in the middle the pieces are void: [`ReplyChunk::ReplyRestarted`] says so before they come again.
    ///
    /// # Errors
    /// As for [`ModelProvider::complete`].
    async fn stream(
        &self,
        request: &ModelRequest,
        on_piece: &mut (dyn FnMut(ReplyChunk) + Send),
    ) -> Result<ModelReply, ModelError>;
}

/// Where an agent's model comes from.
pub trait ModelSource: Send + Sync {
    /// Finds the model of a name (`provider/model`), or the one the settings choose for an agent.
    ///
    /// # Errors
    /// [`ModelError`] of the kind [`ModelErrorKind::Unknown`] or [`ModelErrorKind::Key`].
    fn resolve_model(
        &self,
        name: Option<&str>,
        agent: &str,
    ) -> Result<Arc<dyn ModelProvider>, ModelError>;
}

/// What is known of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelMetadata {
    /// `provider/model`.
    pub name: String,
    /// Tokens that fit into one request and its reply; absent where nobody said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u32>,
    /// What tokens cost; absent where nobody said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<TokenPrice>,
}

/// What a million tokens cost, in the currency of the settings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenPrice {
    /// Tokens sent.
    pub input: f64,
    /// Tokens received.
    pub output: f64,
    /// Tokens sent that the provider had kept; absent: as `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<f64>,
}

/// A conversation to be answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// Instructions and context.
    pub system: String,
    /// What was said, oldest first.
    pub messages: Vec<Message>,
    /// What the model may ask to be called.
    pub tools: Vec<ModelTool>,
    /// Whether it may ask for several tools at once; absent: the model's own default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// Parameters of the model as the manifest has them (such as `temperature`); a JSON object.
    #[serde(default)]
    pub parameters: Value,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// A person, or whoever gave the task.
    User {
        /// What they say.
        text: String,
    },
    /// The model.
    Assistant {
        /// What it says; may be empty beside calls.
        text: String,
        /// The tools it asks for.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ModelToolCall>,
    },
    /// A tool's answer.
    Tool {
        /// The call it answers.
        call_id: String,
        /// The tool.
        name: String,
        /// For the model.
        text: String,
        /// It describes a failure.
        #[serde(default)]
        is_error: bool,
    },
}

/// A tool as a model is told of it. Names are the kernel's; a wire that forbids one maps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelTool {
    /// The name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
}

/// A tool that a model asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelToolCall {
    /// Ties the answer to the call; unique within a reply.
    pub id: String,
    /// The tool, as the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them: JSON text, or what it took for it.
    pub arguments: String,
}

/// A model's reply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelReply {
    /// What it says.
    pub text: String,
    /// The tools it asks for.
    pub calls: Vec<ModelToolCall>,
    /// What it used up.
    pub usage: TokenUsage,
    /// Why it ended.
    pub stop: StopReason,
    /// It thought, and said nothing else.
    pub only_reasoning: bool,
}

/// Tokens of one request or several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Sent, those that were kept included.
    pub input: u64,
    /// Received, reasoning included.
    pub output: u64,
    /// Sent, and kept by the provider from an earlier request.
    pub cached: u64,
    /// The provider did not say: a quarter of the characters.
    pub estimated: bool,
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It was complete, or asks for tools.
    #[default]
    End,
    /// The limit of a reply was reached.
    Length,
    /// The provider held it back.
    Filtered,
}

/// A piece of a reply on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyChunk {
    /// More of the text.
    Text(String),
    /// The request failed and is made again; what came so far is void.
    ReplyRestarted {
        /// Why.
        reason: String,
    },
}

/// The kind of a model's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelErrorKind {
    /// No model or provider of that name.
    Unknown,
    /// The key is missing or refused.
    Key,
    /// The request does not fit into the model's window.
    TooLong,
    /// The provider is busy or asks for patience; retries did not help.
    Busy,
    /// The provider took too long.
    Timeout,
    /// The provider was not reached, or its answer was cut off.
    Network,
    /// The provider refused the request.
    Refused,
    /// The answer is not what the wire promises.
    Protocol,
}

/// Why a model did not answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{model}: {message}")]
pub struct ModelError {
    /// The kind of failure.
    pub kind: ModelErrorKind,
    /// `provider/model`.
    pub model: String,
    /// What went wrong. Never holds a key.
    pub message: String,
    /// What to do about it; may be empty.
    pub hint: String,
}

impl TokenPrice {
    /// What usage costs.
    #[must_use]
    pub fn cost_of(&self, usage: &TokenUsage) -> f64 {
        let cached = self.cached.unwrap_or(self.input) * usage.cached as f64;
        let fresh = self.input * usage.input.saturating_sub(usage.cached) as f64;
        (cached + fresh + self.output * usage.output as f64) / 1e6
    }
}

impl std::ops::AddAssign for TokenUsage {
    fn add_assign(&mut self, other: Self) {
        self.input += other.input;
        self.output += other.output;
        self.cached += other.cached;
        self.estimated |= other.estimated;
    }
}

/// A source without models.
pub(crate) struct NoModels;

impl ModelSource for NoModels {
    fn resolve_model(
        &self,
        name: Option<&str>,
        _: &str,
    ) -> Result<Arc<dyn ModelProvider>, ModelError> {
        Err(ModelError {
            kind: ModelErrorKind::Unknown,
            model: name.unwrap_or("default").to_owned(),
            message: "this kernel has no models".to_owned(),
            hint: String::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_tokens_cost_what_the_price_says() {
        let usage =
            TokenUsage { input: 1_000_000, output: 500_000, cached: 400_000, estimated: false };
        let price = TokenPrice { input: 3.0, output: 15.0, cached: Some(0.3) };
        assert!((price.cost_of(&usage) - (0.12 + 1.8 + 7.5)).abs() < 1e-9);
        let price = TokenPrice { cached: None, ..price };
        assert!((price.cost_of(&usage) - 10.5).abs() < 1e-9);
    }
}
