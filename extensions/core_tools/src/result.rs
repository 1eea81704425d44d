//! The result of a tool.

use skillhost_sdk::Value;

/// The result of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// The text for a model.
    pub text: String,
    /// The value for a program.
    pub structured: Value,
}
