//! The preview of the changes that a tool call would make.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::context::CallContext;

/// The interface of extensions that preview the changes of a tool call, through the generic call.
pub mod effect_interface {
    /// Name of the interface.
    pub const NAME: &str = "tool_effects";
    /// [`crate::EffectRequest`] → [`crate::ToolEffect`], or `null` for a tool without a preview.
    pub const PREVIEW: &str = "preview";
}

/// A request for the changes that a tool call would make. A preview has no side effects.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EffectRequest {
    /// The context of the call.
    pub context: CallContext,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Box<RawValue>,
    /// The caller needs the texts as well; otherwise the paths suffice.
    #[serde(default)]
    pub with_text: bool,
}

/// The changes that a tool call would make to files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolEffect {
    /// Every change.
    pub changes: Vec<EffectChange>,
    /// The digest of exactly these changes; a different effect has a different digest.
    // A person approves this digest, and the tool compares it again before it acts.
    pub digest: String,
    /// The changes that cannot be displayed, and the reason; absent if all of them can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<String>,
}

impl ToolEffect {
    /// The maximum bytes of text in an effect; the excess is named in [`ToolEffect::hidden`].
    pub const TEXT_LIMIT: usize = 256 * 1024;
}

/// A change of one file or directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectChange {
    /// The path relative to the home, with `/`; in a workspace `workspace:LABEL/PATH`.
    pub path: String,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The new path, if `kind` is [`ChangeKind::Move`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The new text as the hunks of a unified diff, or one line that describes content without
    /// text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub diff: String,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// A new file.
    Create,
    /// A file with a new text.
    Modify,
    /// A deleted file or directory.
    Delete,
    /// A file or directory with a new path.
    Move,
}
