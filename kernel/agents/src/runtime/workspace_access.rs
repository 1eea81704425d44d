//! The workspaces that a run and its tool calls may reach.

use skillhost_core::spawn_blocking;
use skillhost_payload::{CallContext, CallOrigin, Workspace};
use skillhost_workspaces::{WorkspaceResolution, merge_workspaces, resolve_workspaces};

use super::session::RunSession;
use crate::agent_runtime::AgentRuntime;

impl AgentRuntime {
    /// Resolves the workspaces of a run: those of the settings, of the kernel's command line and of
    /// the request. Returns a line about each that is not available or behind a link, too.
    pub(crate) async fn resolve_workspaces(
        &self,
        requested: Vec<Workspace>,
    ) -> (Vec<Workspace>, Vec<String>) {
        // The request is the operator's later word.
        let asked = merge_workspaces(requested, self.known_workspaces());
        if asked.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let home = self.extensions().home().clone();
        let resolved = spawn_blocking(move || resolve_workspaces(&home, &asked)).await;
        let WorkspaceResolution { workspaces, notes } = resolved.unwrap_or_default();
        (workspaces, notes)
    }

    /// Returns the workspaces of a call: those of its run, or for an operator those of the kernel.
    /// Every other caller has none, even if its context names some.
    pub(crate) async fn workspaces_of_call(
        &self,
        context: &CallContext,
        session: Option<&RunSession>,
    ) -> Vec<Workspace> {
        match (session, context.origin) {
            (Some(session), _) => session.workspaces.clone(),
            (None, CallOrigin::Operator) => self.resolve_workspaces(Vec::new()).await.0,
            (None, CallOrigin::Agent | CallOrigin::Mcp) => Vec::new(),
        }
    }

    fn known_workspaces(&self) -> Vec<Workspace> {
        // Read again for each run, so that a change of the settings is in effect.
        let settings = self.extensions().settings();
        let others = settings.workspaces.iter().map(Workspace::from);
        merge_workspaces(self.own_workspaces(), others)
    }
}
