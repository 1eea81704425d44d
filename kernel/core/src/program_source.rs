//! The part of the kernel that has the programs of skills, as the extension host sees it.

use async_trait::async_trait;
use skillhost_control::OwnedTool;
use skillhost_payload::{CallContext, CallError};

use crate::tools::ToolEntry;

/// A source of tools whose set changes while the kernel runs: the programs of skills.
#[async_trait]
pub trait ProgramToolSource: Send + Sync {
    /// Updates the table of tools if the set of programs changed.
    async fn refresh(&self);

    /// Lists the programs that a caller is offered.
    async fn list(&self, context: &CallContext) -> Vec<OwnedTool>;

    /// Finds a tool that is called by name alone, such as that of a skill without a program.
    async fn find(&self, context: &CallContext, name: &str)
    -> Result<Option<ToolEntry>, CallError>;
}
