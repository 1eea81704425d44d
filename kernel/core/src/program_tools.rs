//! The programs of skills among the tools of a host.

use std::sync::Arc;

use futures::future::BoxFuture;
use skillhost_payload::{CallContext, CallError, CallOrigin};

use crate::extension_host::ExtensionHost;
use crate::program_source::ProgramToolSource;
use crate::state::KernelState;
use crate::tools::{ProgramTools, ToolEntry, ToolError};

impl ExtensionHost {
    /// Sets the source of the programs of skills; called once, before extensions are loaded.
    pub fn set_program_source(&self, source: Arc<dyn ProgramToolSource>) {
        let _ = self.program_source.set(source);
    }

    /// Updates the tools of programs if the skills changed.
    pub fn refresh_programs(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(source) = self.program_source.get() {
                source.refresh().await;
            }
        })
    }

    /// Puts the tools of programs in force; returns the programs whose names are taken.
    ///
    /// A change of the loaded extensions at the same time may undo this; the stamp then differs, and
    /// the next refresh repeats it.
    pub fn replace_programs(&self, programs: ProgramTools) -> Vec<ToolError> {
        let (programs, mut shadowed) = (Arc::new(programs), Vec::new());
        // The closure may run again after a concurrent change; the last run counts.
        self.state.rcu(|state| {
            let mut next = KernelState::clone(state);
            shadowed = next.tools.replace_programs(&programs);
            next
        });
        shadowed
    }

    /// Finds a program of a skill that is not in the table of tools under this name.
    ///
    /// # Errors
    /// The error of a skill whose programs cannot be used.
    pub fn find_program<'a>(
        &'a self,
        context: &'a CallContext,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<ToolEntry>, CallError>> {
        Box::pin(async move {
            match self.program_source.get() {
                // To clients of the MCP server, programs do not exist.
                Some(source) if context.origin != CallOrigin::Mcp => {
                    source.find(context, name).await
                }
                _ => Ok(None),
            }
        })
    }
}
