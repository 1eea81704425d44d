//! Agents and their instructions, as the state of a kernel has them.

use std::sync::Arc;

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};
use skillhost_home::DiscoveredManifest;
use skillhost_manifest::{AgentManifest, Manifest};

use crate::error::KernelError;

/// The source of an instruction layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstructionLayerKind {
    /// The `prompt.jinja2` in the directory of the manifest.
    Prompt,
    /// A bound skill.
    Skill,
    /// The manifest's `agent.instructions`.
    Inline,
}

/// One layer of an agent's instructions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstructionLayer {
    /// The kind of the layer.
    pub kind: InstructionLayerKind,
    /// The path of a file, or the skill's source.
    pub source: String,
    /// The skill's id; `None` for other kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill_id: Option<String>,
    /// The sha256 of the SKILL.md for a skill, else of the text.
    pub digest: String,
    /// The estimated tokens of the text.
    pub tokens: u32,
    /// The text of the layer.
    pub text: String,
}

/// An error that prevents the resolution of an agent's instructions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentError {
    /// The reason, with path and line.
    pub reason: String,
    /// The hint for the operator.
    pub hint: String,
}

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
    pub(crate) generation: Option<(u64, u64)>,
    /// True if the error is a missing tool.
    pub(crate) lacks_tools: bool,
}

/// A declarative agent.
pub struct Agent {
    /// The agent's manifest.
    pub manifest: Arc<Manifest>,
    /// The path of the manifest.
    pub path: std::path::PathBuf,
    /// The discovered manifest, with the private copy that the prompt is read from.
    found: DiscoveredManifest,
    pub(crate) resolved: ArcSwap<ResolvedInstructions>,
}

impl ResolvedInstructions {
    /// Creates the error state.
    pub(crate) fn from_error(problem: AgentError) -> Self {
        Self {
            layers: Vec::new(),
            instructions: "".into(),
            problem: Some(problem),
            generation: None,
            lacks_tools: false,
        }
    }
}

impl Agent {
    pub(crate) fn new(found: &DiscoveredManifest, resolved: ResolvedInstructions) -> Self {
        Self {
            manifest: Arc::clone(&found.manifest),
            path: found.path.clone(),
            found: found.clone(),
            resolved: ArcSwap::from_pointee(resolved),
        }
    }

    /// Returns the discovered manifest, with the directory of its files.
    pub(crate) fn found(&self) -> &DiscoveredManifest {
        &self.found
    }

    /// Returns the current instructions.
    #[must_use]
    pub fn instructions(&self) -> Arc<ResolvedInstructions> {
        self.resolved.load_full()
    }

    /// Returns the current instructions, or an error if the agent is in the error state.
    pub(crate) fn require_ready(&self) -> Result<Arc<ResolvedInstructions>, KernelError> {
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
