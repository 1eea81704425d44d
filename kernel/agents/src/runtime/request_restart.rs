//! The tool by which an agent requests a restart of the kernel.

use serde::Deserialize;
use serde_json::json;
use skillhost_payload::{ApprovalPolicy, CallError, ErrorKind, ToolSpec};

use super::session::RunSession;
use super::tool_spec::new_spec;
use crate::agent_runtime::AgentRuntime;

pub(super) const NAME: &str = "request_restart";

pub(super) fn tool_spec() -> ToolSpec {
    ToolSpec {
        needs_approval: ApprovalPolicy::Always,
        ..new_spec(
            NAME,
            "Restarts the kernel, so that new and changed extensions are loaded. Asks for \
             approval first. Threads stop before their next model request and continue \
             afterwards: this one receives the lists of loaded and rejected extensions.",
            json!({
                "type": "object",
                "properties": {
                    "reason": {
                        "type": "string", "minLength": 1,
                        "description": "The reason, in one sentence, for the person who approves."
                    }
                },
                "required": ["reason"],
                "additionalProperties": false
            }),
        )
    }
}

#[derive(Deserialize)]
pub(super) struct RequestRestartArgs {
    reason: String,
}

impl AgentRuntime {
    pub(super) async fn request_restart_from_run(
        &self,
        session: &RunSession,
        RequestRestartArgs { reason }: RequestRestartArgs,
    ) -> Result<String, CallError> {
        let services = self
            .extensions()
            .services()
            .ok_or_else(|| CallError::new(ErrorKind::Unavailable, "the kernel shuts down"))?;
        services.request_restart(&reason, session.agent.as_str()).await?;
        Ok("The kernel restarts after the active runs have stopped. This thread continues afterwards."
            .to_owned())
    }
}
