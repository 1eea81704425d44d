//! Answers that replace the results of tools, for tests of agents.

use std::collections::{BTreeMap, BTreeSet};

use skillhost_manifest::ExtensionId;
use skillhost_payload::ToolOutput;

/// The answers that replace the results of tools. A call is resolved and checked as always, but
/// neither approved nor made.
#[derive(Debug, Clone, Default)]
pub struct ToolStubs {
    /// The extensions whose tools are called.
    pub real_extensions: BTreeSet<String>,
    /// The tools that are called.
    pub real_tools: BTreeSet<String>,
    /// The texts of other tools; a tool without one has an empty result.
    pub answers: BTreeMap<String, String>,
}

impl ToolStubs {
    /// Returns the result of a tool, or `None` if the tool is called.
    pub(crate) fn stub_output(&self, owner: &ExtensionId, name: &str) -> Option<ToolOutput> {
        if self.real_tools.contains(name) || self.real_extensions.contains(owner.as_str()) {
            return None;
        }
        let text = self.answers.get(name).cloned().unwrap_or_default();
        Some(ToolOutput { text, ..ToolOutput::default() })
    }
}
