//! The parts that the kernel's own tools share: specs, arguments, outputs and errors.

use serde::de::DeserializeOwned;
use skillhost_payload::{
    ApprovalPolicy, CallError, ErrorKind, TaskSupport, ToolAudience, ToolOutput, ToolSpec,
};

/// Creates the spec of a tool without an approval.
pub(super) fn new_spec(name: &str, description: &str, input_schema: serde_json::Value) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema,
        output_schema: None,
        read_only: false,
        destructive: false,
        needs_approval: ApprovalPolicy::Never,
        audience: ToolAudience::Agent,
        changes_skills: false,
        effect: None,
        task: TaskSupport::Never,
        needs: Vec::new(),
        skill_use: None,
    }
}

/// Creates an output of text alone.
pub(super) fn text_output(text: String) -> ToolOutput {
    ToolOutput { text, ..ToolOutput::default() }
}

/// Returns the error of a tool that acts for a run, in a call without one.
pub(super) fn no_run_error() -> CallError {
    CallError::new(ErrorKind::Unavailable, "tool requires a running agent")
}

/// Parses the arguments of a call.
pub(super) fn parse_args<T: DeserializeOwned>(arguments: &str) -> Result<T, CallError> {
    serde_json::from_str(arguments)
        .map_err(|error| CallError::new(ErrorKind::InvalidArgument, format!("arguments: {error}")))
}

/// Returns the error of a call during the shutdown.
pub(super) fn shutdown_error() -> CallError {
    CallError::new(ErrorKind::Unavailable, "the kernel shuts down")
}
