//! The parameters of the messages that the server reads.

use serde::Deserialize;
use serde_json::Value;

use crate::position::{TextPosition, TextRange};

/// The error codes of JSON-RPC and LSP.
pub(crate) mod code {
    pub(crate) const PARSE_ERROR: i32 = -32700;
    pub(crate) const INVALID_REQUEST: i32 = -32600;
    pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
    pub(crate) const INVALID_PARAMS: i32 = -32602;
    pub(crate) const NOT_INITIALIZED: i32 = -32002;
    pub(crate) const REQUEST_FAILED: i32 = -32803;
}

/// A request or a notification; a message without a method is a response, which is not expected.
#[derive(Debug, Deserialize)]
pub(crate) struct IncomingMessage {
    /// A number or a text; absent in a notification.
    pub(crate) id: Option<Value>,
    pub(crate) method: Option<String>,
    #[serde(default)]
    pub(crate) params: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct InitializeParams {
    pub(crate) initialization_options: Option<ServerOptions>,
}

/// The options of a client.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServerOptions {
    /// The pause after a change before a check, in milliseconds.
    pub(crate) debounce: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DocumentItem {
    pub(crate) uri: String,
    #[serde(default)]
    pub(crate) version: i64,
    pub(crate) text: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DocumentId {
    pub(crate) uri: String,
    #[serde(default)]
    pub(crate) version: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpenParams {
    pub(crate) text_document: DocumentItem,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChangeParams {
    pub(crate) text_document: DocumentId,
    pub(crate) content_changes: Vec<ContentChange>,
}

/// A change: of a range, or of the complete text.
#[derive(Debug, Deserialize)]
pub(crate) struct ContentChange {
    pub(crate) range: Option<TextRange>,
    pub(crate) text: String,
}

/// The parameters of messages that name a document alone.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DocumentParams {
    pub(crate) text_document: DocumentId,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HoverParams {
    pub(crate) text_document: DocumentId,
    pub(crate) position: TextPosition,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CodeActionParams {
    pub(crate) text_document: DocumentId,
    pub(crate) range: TextRange,
    #[serde(default)]
    pub(crate) context: CodeActionContext,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct CodeActionContext {
    /// The kinds that the client wants; `None` for all.
    #[serde(default)]
    pub(crate) only: Option<Vec<String>>,
}
