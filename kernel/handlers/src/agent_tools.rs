//! The tools of agents, as programs of skills call them: through the one dispatcher.

use async_trait::async_trait;
use skillhost_agents::WeakAgentRuntime;
use skillhost_payload::{CallError, ErrorKind, ToolOutput};

use crate::call_scope::{ProgramToolCall, ToolInvoker};

#[async_trait]
impl ToolInvoker for WeakAgentRuntime {
    async fn invoke_tool(&self, call: ProgramToolCall) -> Result<ToolOutput, CallError> {
        let ProgramToolCall { context, allowed_tools, name, arguments } = call;
        let agents = self
            .upgrade()
            .ok_or_else(|| CallError::new(ErrorKind::Unavailable, "the kernel shuts down"))?;
        let allowed = allowed_tools.as_deref();
        Ok(agents.invoke_for_program(context, allowed, &name, &arguments).await?)
    }
}
