//! The tools that manifests export to external clients.

use futures::future::BoxFuture;
use skillhost_core::{Instance, KernelError, ListedTools, NamedObject};
use skillhost_home::suggest_similar;
use skillhost_payload::{CallContext, ToolOutput};

use crate::agent_runtime::AgentRuntime;
use crate::runtime::TaskCall;

impl AgentRuntime {
    /// Lists the tools that manifests export, as a client sees them, with the extensions that
    /// failed to list theirs.
    pub fn exported_tools<'a>(&'a self, context: &'a CallContext) -> BoxFuture<'a, ListedTools> {
        Box::pin(async move {
            let (mut tools, failures) = self.extensions().list_tools(context, &|_, _| true).await;
            let state = self.extensions().state();
            // Exports are checked per owner: another extension may offer a tool of the same name.
            tools.retain(|tool| {
                state
                    .instances
                    .get(&tool.extension)
                    .is_some_and(|owner| is_exported(owner, &tool.spec.name))
            });
            (tools, failures)
        })
    }

    /// Calls an exported tool with arguments as JSON text.
    ///
    /// # Errors
    /// As for [`AgentRuntime::invoke_tool`]; a tool that is not exported is reported as not found.
    pub fn invoke_exported<'a>(
        &'a self,
        context: CallContext,
        name: &'a str,
        arguments: &'a str,
    ) -> BoxFuture<'a, Result<ToolOutput, KernelError>> {
        Box::pin(async move {
            self.check_exported(name)?;
            self.invoke_tool(context, name, arguments).await
        })
    }

    /// Calls an exported tool for a client that requests the required approval. Returns `None` if
    /// the approval is parked.
    ///
    /// # Errors
    /// As for [`AgentRuntime::invoke_exported`], and that of [`TaskCall::start_call`].
    pub fn invoke_exported_with<'a>(
        &'a self,
        context: CallContext,
        name: &'a str,
        arguments: &'a str,
        call: &'a dyn TaskCall,
    ) -> BoxFuture<'a, Result<Option<ToolOutput>, KernelError>> {
        Box::pin(async move {
            self.check_exported(name)?;
            self.invoke_for_task(context, name, arguments, call).await
        })
    }

    fn check_exported(&self, name: &str) -> Result<(), KernelError> {
        // A loaded tool that is not exported must look like an unknown one.
        let state = self.extensions().state();
        let exported = || state.instances.values().flat_map(|owner| &owner.manifest.mcp.tools);
        if exported().any(|exported| exported == name) {
            return Ok(());
        }
        let similar = suggest_similar(name, exported().map(String::as_str));
        Err(KernelError::NotFound { what: NamedObject::Tool, id: name.to_owned(), similar })
    }
}

/// Returns whether the owner of a tool exports it.
fn is_exported(owner: &Instance, tool: &str) -> bool {
    owner.manifest.mcp.tools.iter().any(|exported| exported == tool)
}
