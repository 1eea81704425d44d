//! The tool by which an agent has the kernel started again.

use serde::Deserialize;
use serde_json::json;
use skillhost_contract::payload::{ApprovalPolicy, ToolSpec};

use super::kernel_tools;
use super::session::RunSession;
use crate::error::CallError;
use crate::kernel::Kernel;

pub(super) const NAME: &str = "request_restart";

pub(super) fn tool_spec() -> ToolSpec {
    ToolSpec {
        needs_approval: ApprovalPolicy::Always,
        ..kernel_tools::new_spec(
            NAME,
            "Has the kernel started again, so that new and changed extensions are loaded. Asks a \
             person first. Conversations stop before their next step and go on afterwards: this one \
             is told what was loaded and what was not.",
            json!({
                "type": "object",
                "properties": {
                    "reason": {
                        "type": "string", "minLength": 1,
                        "description": "Why, in one sentence, for the person who is asked."
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

impl Kernel {
    pub(super) async fn request_restart_from_run(
        &self,
        session: &RunSession,
        RequestRestartArgs { reason }: RequestRestartArgs,
    ) -> Result<String, CallError> {
        self.request_restart(&reason, session.agent.as_str()).await?;
        Ok("The kernel restarts as soon as everything is at rest. What was said goes on afterwards."
            .to_owned())
    }
}
