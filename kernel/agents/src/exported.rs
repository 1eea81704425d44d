//! The tools that manifests export to external clients.

use futures::future::BoxFuture;
use skillhost_control::OwnedTool;
use skillhost_core::foreign_text::sanitize;
use skillhost_core::{KernelError, KernelState, ListedTools, NamedObject, ToolEntry};
use skillhost_home::suggest_similar;
use skillhost_manifest::Manifest;
use skillhost_payload::{CallContext, CallError, CallOrigin, ToolOutput, ToolSpec};

use crate::agent_runtime::AgentRuntime;
use crate::runtime::TaskCall;
use crate::runtime::agent_alias::parse_alias_task;

impl AgentRuntime {
    /// Lists the tools that manifests export, as a client sees them, with the extensions that
    /// failed to list theirs.
    pub fn exported_tools<'a>(&'a self, context: &'a CallContext) -> BoxFuture<'a, ListedTools> {
        Box::pin(async move {
            let (mut tools, failures) = self.extensions().list_tools(context, &|_, _| true).await;
            let state = self.extensions().state();
            // Exports are checked per owner: another extension may offer a tool of the same name.
            tools.retain(|tool| {
                let owner = state.instances.get(&tool.extension);
                owner.is_some_and(|owner| is_exported(&owner.manifest, &tool.spec.name))
            });
            tools.extend(exported_agents(&state).map(|entry| {
                let spec = &entry.spec;
                // The description is that of a manifest, which an agent may have written.
                let spec =
                    ToolSpec { description: sanitize(&spec.description), ..ToolSpec::clone(spec) };
                OwnedTool { extension: entry.owner.clone(), skill: None, spec }
            }));
            tools.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
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

    /// Returns the text of the task if a call of an exported tool is one for an agent, or `None` for
    /// any other tool.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](skillhost_payload::ErrorKind) for arguments that the tool does
    /// not accept.
    pub fn parse_agent_call(
        &self,
        tool: &str,
        arguments: &str,
    ) -> Result<Option<String>, CallError> {
        let state = self.extensions().state();
        let Some(entry) = exported_agents(&state).find(|entry| entry.spec.name == tool) else {
            return Ok(None);
        };
        entry.arguments.check(arguments)?;
        parse_alias_task(arguments).map(Some)
    }

    fn check_exported(&self, name: &str) -> Result<(), KernelError> {
        // A loaded tool that is not exported must look like an unknown one.
        let state = self.extensions().state();
        let agents = state.agents.values().map(|agent| &agent.manifest);
        let owners: Vec<_> =
            state.instances.values().map(|owner| &owner.manifest).chain(agents).collect();
        let exported = || owners.iter().flat_map(|owner| &owner.mcp.tools);
        if exported().any(|exported| exported == name) {
            return Ok(());
        }
        let similar = suggest_similar(name, exported().map(String::as_str));
        Err(KernelError::NotFound { what: NamedObject::Tool, id: name.to_owned(), similar })
    }
}

/// Returns whether a manifest exports a tool.
fn is_exported(manifest: &Manifest, tool: &str) -> bool {
    manifest.mcp.tools.iter().any(|exported| exported == tool)
}

/// Returns the tools of the agents that export themselves.
fn exported_agents(state: &KernelState) -> impl Iterator<Item = &ToolEntry> {
    let agents = state.agents.values().map(|agent| &agent.manifest);
    let exported = agents.filter(|manifest| is_exported(manifest, manifest.id.as_str()));
    exported.filter_map(|manifest| {
        let entry = state.tools.find(manifest.id.as_str(), CallOrigin::Agent).ok()?;
        (entry.owner == manifest.id).then_some(entry)
    })
}
