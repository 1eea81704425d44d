//! The error that prevents the load of one extension.

use skillhost_home::LoadPhase;
use skillhost_payload::CallError;

use crate::tools::ToolError;

/// An error that prevents the load of one extension.
pub struct ExtensionLoadError {
    /// The failed phase.
    pub phase: LoadPhase,
    /// The reason.
    pub reason: String,
    /// A hint; may be empty.
    pub hint: String,
}

impl ExtensionLoadError {
    /// Creates the error of a failed call.
    #[must_use]
    pub fn from_call_error(phase: LoadPhase, error: CallError) -> Self {
        Self { phase, reason: error.message, hint: error.hint }
    }

    /// Joins the errors of an extension's tools.
    #[must_use]
    pub fn from_tool_errors(problems: &[ToolError]) -> Self {
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        let hints = ToolError::hints(problems);
        Self { phase: LoadPhase::Wire, reason: lines.join("\n"), hint: hints }
    }
}
