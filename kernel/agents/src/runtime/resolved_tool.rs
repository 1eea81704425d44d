//! A tool that was found for a call, with its implementation.

use std::sync::Arc;

use skillhost_core::{PinnedInstance, Plugin, ToolEntry};
use skillhost_payload::skill_interface;

/// A resolved tool with its implementation.
pub(super) struct ResolvedTool {
    pub(super) entry: ToolEntry,
    pub(super) target: ToolTarget,
}

/// The implementation of a tool.
pub(super) enum ToolTarget {
    Extension(PinnedInstance),
    Builtin(Arc<dyn Plugin>),
}

impl ResolvedTool {
    /// Returns the sha256 of the extension's approved files, if it has such.
    pub(super) fn extension_sha256(&self) -> Option<String> {
        match &self.target {
            ToolTarget::Extension(instance) => instance.sha256.clone(),
            ToolTarget::Builtin(_) => None,
        }
    }

    /// Returns whether calls may change the active skills: the tool states it, and its extension
    /// provides skills.
    pub(super) fn changes_skills(&self) -> bool {
        let is_provider = match &self.target {
            ToolTarget::Extension(instance) => instance.provides(skill_interface::NAME),
            ToolTarget::Builtin(_) => false,
        };
        self.entry.spec.changes_skills && is_provider
    }
}
