//! Calls of tools by programs of skills.

use futures::future::BoxFuture;
use skillhost_core::KernelError;
use skillhost_payload::{CallContext, CallError, CallOrigin, ErrorKind, ToolOutput};

use crate::agent_runtime::AgentRuntime;

impl AgentRuntime {
    /// Calls a tool in the name of a skill's program, which may call the tools that both its agent
    /// and `allowed_tools` have; `None` does not restrict.
    ///
    /// # Errors
    /// As for [`AgentRuntime::invoke_tool`]; [`ErrorKind::Denied`] for another tool.
    pub fn invoke_for_program<'a>(
        &'a self,
        mut context: CallContext,
        allowed_tools: Option<&'a [String]>,
        name: &'a str,
        arguments: &'a str,
    ) -> BoxFuture<'a, Result<ToolOutput, KernelError>> {
        Box::pin(async move {
            if let Some(allowed) = allowed_tools
                && !allowed.iter().any(|tool| tool == name)
            {
                let message = format!("tool `{name}` is not in the skill's `allowed-tools`");
                return Err(CallError::new(ErrorKind::Denied, message)
                    .with_hint(match allowed {
                        [] => "it names no tool".to_owned(),
                        names => format!("it names: {}", names.join(", ")),
                    })
                    .into());
            }
            // An operator's call of a program approves the program, not what it calls in turn.
            if context.origin == CallOrigin::Operator {
                context.origin = CallOrigin::Agent;
            }
            // As for an extension: the key is that of the program's own call.
            context.idempotency_key = None;
            context.input = None;
            if !context.agent_id.is_empty() {
                self.check_agent_has(&context, name).await?;
            }
            self.invoke_tool(context, name, arguments).await
        })
    }

    async fn check_agent_has(&self, context: &CallContext, name: &str) -> Result<(), KernelError> {
        let agent = self.find_agent(&context.agent_id)?;
        // A program has several names, and only one of them is in the table of tools.
        let entry = self.find_current_tool(context, name).await?.entry;
        if self.uses_tool(&agent, &entry.owner, &entry.spec.name) {
            return Ok(());
        }
        let message = format!("agent `{}` does not have tool `{name}`", agent.manifest.id);
        Err(CallError::new(ErrorKind::Denied, message)
            .with_hint("add it to `uses_tools` of the agent")
            .into())
    }
}
