//! Agents and their instructions, as the state of a kernel has them.

use std::sync::Arc;

use arc_swap::ArcSwap;
use skillhost_control::{AgentError, InstructionLayer};
use skillhost_home::DiscoveredManifest;
use skillhost_manifest::{AgentManifest, Manifest};

use crate::error::KernelError;

/// An agent's instructions for one generation of the skills.
#[derive(Debug, Clone)]
pub struct ResolvedInstructions {
    /// The layers in order; empty in the error state.
    pub layers: Vec<InstructionLayer>,
    /// The texts of the layers, joined.
    pub instructions: Arc<str>,
    /// The error, if the agent is in the error state.
    pub problem: Option<AgentError>,
    /// The provider's `number` and its generation.
    pub generation: Option<(u64, u64)>,
    /// True if the error is a missing tool.
    pub lacks_tools: bool,
    /// The revision of the agents' tools with which the bound skills were checked.
    pub tools_revision: u64,
}

/// A declarative agent.
pub struct Agent {
    /// The agent's manifest.
    pub manifest: Arc<Manifest>,
    /// The path of the manifest.
    pub path: std::path::PathBuf,
    /// The discovered manifest, with the private copy that the prompt is read from.
    found: DiscoveredManifest,
    /// The current instructions, replaced as a whole.
    pub resolved: ArcSwap<ResolvedInstructions>,
}

impl ResolvedInstructions {
    /// Creates the error state.
    pub fn from_error(problem: AgentError) -> Self {
        Self {
            layers: Vec::new(),
            instructions: "".into(),
            problem: Some(problem),
            generation: None,
            lacks_tools: false,
            tools_revision: 0,
        }
    }
}

impl Agent {
    /// Creates an agent with its first instructions.
    #[must_use]
    pub fn new(found: &DiscoveredManifest, resolved: ResolvedInstructions) -> Self {
        Self {
            manifest: Arc::clone(&found.manifest),
            path: found.path.clone(),
            found: found.clone(),
            resolved: ArcSwap::from_pointee(resolved),
        }
    }

    /// Returns the discovered manifest, with the directory of its files.
    pub fn found(&self) -> &DiscoveredManifest {
        &self.found
    }

    /// Returns the current instructions.
    #[must_use]
    pub fn instructions(&self) -> Arc<ResolvedInstructions> {
        self.resolved.load_full()
    }

    /// Returns the current instructions, or an error if the agent is in the error state.
    pub fn require_ready(&self) -> Result<Arc<ResolvedInstructions>, KernelError> {
        let resolved = self.instructions();
        match &resolved.problem {
            None => Ok(resolved),
            Some(AgentError { reason, hint }) => Err(KernelError::AgentFailed {
                id: self.manifest.id.clone(),
                reason: reason.clone(),
                hint: hint.clone(),
            }),
        }
    }

    /// Returns the `agent` section of the manifest.
    #[must_use]
    pub fn agent_manifest(&self) -> &AgentManifest {
        self.manifest.agent().expect("only agents' manifests become agents")
    }
}
