//! What a tool call would change.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::CallContext;

/// The interface of extensions that say what a tool call would change, spoken through the generic
/// call.
pub mod effect_interface {
    /// Name of the interface.
    pub const NAME: &str = "tool_effects";
    /// [`super::EffectRequest`] → [`super::ToolEffect`], or nothing for a tool without a preview.
    pub const PREVIEW: &str = "preview";
}

/// Asks what a tool call would change. Answering it changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EffectRequest {
    /// The context of the call.
    pub context: CallContext,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Box<RawValue>,
    /// The texts are wanted as well; without them the paths are enough.
    #[serde(default)]
    pub with_text: bool,
}

/// The changes that a tool call would make to files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolEffect {
    /// Every change.
    pub changes: Vec<EffectChange>,
    /// Names exactly these changes; another effect has another digest.
    pub digest: String,
    /// The part of the changes that has no text to be shown, and the reason; absent where all of
    /// them are shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<String>,
}

impl ToolEffect {
    /// Bytes of text that an effect carries at most; with more, [`ToolEffect::hidden`] says so.
    pub const TEXT_LIMIT: usize = 256 * 1024;
}

/// One file or directory that a tool call would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectChange {
    /// The path relative to the home, with `/`.
    pub path: String,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The new path of what is moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The new text as the hunks of a unified diff, or a line about what has no text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub diff: String,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// A new file.
    Create,
    /// Another text in a file.
    Modify,
    /// A file or directory that is deleted.
    Delete,
    /// A file or directory with another path.
    Move,
}
