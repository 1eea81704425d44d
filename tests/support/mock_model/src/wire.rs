//! The wires, as a server speaks them.

mod anthropic;
mod gemini;
mod ollama;
mod openai;
mod responses;

use serde_json::{Value, json};

use crate::step::Reply;

/// A protocol of model providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// OpenAI's Chat Completions.
    Openai,
    /// OpenAI's Responses.
    OpenaiResponses,
    /// Anthropic's Messages.
    Anthropic,
    /// Gemini's generateContent.
    Gemini,
    /// Ollama's chat.
    Ollama,
}

impl Wire {
    /// All wires.
    pub const ALL: [Self; 5] =
        [Self::Openai, Self::OpenaiResponses, Self::Anthropic, Self::Gemini, Self::Ollama];

    /// Its name in the settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::OpenaiResponses => "openai_responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    /// Returns the prefix of its paths.
    pub(crate) const fn base(self) -> &'static str {
        match self {
            Self::Openai | Self::OpenaiResponses | Self::Anthropic => "/v1",
            Self::Gemini => "/v1beta",
            Self::Ollama => "",
        }
    }

    /// Returns the wire of a path.
    pub(crate) fn of(path: &str) -> Option<Self> {
        match path {
            "/v1/chat/completions" => Some(Self::Openai),
            "/v1/responses" => Some(Self::OpenaiResponses),
            "/v1/messages" => Some(Self::Anthropic),
            "/api/chat" => Some(Self::Ollama),
            _ => path.starts_with("/v1beta/models/").then_some(Self::Gemini),
        }
    }

    /// Formats the reply as one body.
    pub(crate) fn whole(self, model: &str, reply: &Reply) -> Value {
        match self {
            Self::Openai => openai::whole(model, reply),
            Self::OpenaiResponses => responses::whole(model, reply),
            Self::Anthropic => anthropic::whole(model, reply),
            Self::Gemini => gemini::whole(model, reply),
            Self::Ollama => ollama::whole(model, reply),
        }
    }

    /// Formats the reply as the chunks of a stream.
    pub(crate) fn pieces(self, model: &str, reply: &Reply) -> Vec<String> {
        match self {
            Self::Openai => openai::pieces(model, reply),
            Self::OpenaiResponses => responses::pieces(model, reply),
            Self::Anthropic => anthropic::pieces(model, reply),
            Self::Gemini => gemini::pieces(model, reply),
            Self::Ollama => ollama::pieces(model, reply),
        }
    }

    /// Formats the body of an error.
    pub(crate) fn error(self, status: u16, code: &str, message: &str) -> Value {
        match self {
            Self::Openai | Self::OpenaiResponses => {
                json!({"error": {"message": message, "type": code, "code": code}})
            }
            Self::Anthropic => {
                json!({"type": "error", "error": {"type": code, "message": message}})
            }
            Self::Gemini => {
                json!({"error": {"code": status, "message": message, "status": code}})
            }
            Self::Ollama => json!({"error": message}),
        }
    }

    /// Formats an error within a streamed reply.
    pub(crate) fn stream_error(self, code: &str, message: &str) -> String {
        let body = self.error(500, code, message);
        match self {
            Self::Openai | Self::Gemini => data(&body),
            Self::OpenaiResponses => {
                data(&json!({"type": "error", "code": code, "message": message}))
            }
            Self::Anthropic => event("error", &body),
            Self::Ollama => format!("{body}\n"),
        }
    }

    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Ollama => "application/x-ndjson",
            _ => "text/event-stream",
        }
    }
}

/// Formats a server-sent event without a name.
fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// Formats a server-sent event with a name.
fn event(name: &str, value: &Value) -> String {
    format!("event: {name}\ndata: {value}\n\n")
}

/// Converts arguments for wires that send them as JSON: invalid JSON becomes a text.
fn as_json(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or_else(|_| Value::from(arguments))
}
