//! What a `manifest.yaml` says.

use serde::Serialize;

use crate::{AgentManifest, ExtensionId};

/// One extension as its `manifest.yaml` describes it, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Identifies the extension; unique among all that are loaded together.
    pub id: ExtensionId,
    /// The name shown to people.
    pub name: String,
    /// The extension's own version: up to three numbers, then optionally `-pre` and `+build`.
    pub version: Option<String>,
    /// What the extension is for, in a sentence or two; empty if the manifest does not say.
    pub description: String,
    /// Whether it is a library or a declarative agent.
    pub kind: Kind,
    /// The extensions that must be loaded before this one, in the order written.
    pub depends_on: Vec<Dependency>,
    /// The default configuration, always a JSON object; settings may override its keys.
    pub config: serde_json::Value,
    /// The names of the secrets the extension may ask for.
    pub secrets: Vec<String>,
    /// Whether the extension is loaded at all.
    pub enabled: bool,
    /// The SHA-256 the library must have; a library only.
    pub sha256: Option<[u8; 32]>,
    /// What an operator has to do before the extension works.
    pub setup_instructions: Option<String>,
    /// The events it publishes and subscribes to; documentation, nothing is enforced.
    pub events: Events,
    /// What clients of the MCP server are offered; a library only.
    pub mcp: Mcp,
}

/// What an extension offers to clients of the MCP server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mcp {
    /// The tools they may call, in the order written.
    pub tools: Vec<String>,
}

/// What an extension consists of.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A dynamic library.
    Library {
        /// The library's base name: `echo` stands for `libecho.so` on Linux.
        entrypoint: String,
    },
    /// An agent described by the manifest alone; boxed because it is much larger.
    Agent(Box<AgentManifest>),
}

impl Manifest {
    /// Returns the agent's part of the manifest, if this is an agent.
    pub fn agent(&self) -> Option<&AgentManifest> {
        match &self.kind {
            Kind::Agent(agent) => Some(agent),
            Kind::Library { .. } => None,
        }
    }

    /// Returns the library's base name, if this is a library.
    pub fn entrypoint(&self) -> Option<&str> {
        match &self.kind {
            Kind::Library { entrypoint } => Some(entrypoint),
            Kind::Agent(_) => None,
        }
    }
}

/// An extension that another one needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// The extension needed.
    pub id: ExtensionId,
    /// Whether the dependent can do without it. An optional dependency only decides the order.
    pub optional: bool,
    /// The line of the manifest that names it, from 1.
    pub line: u32,
    /// The column of that line, in characters from 1.
    pub column: u32,
}

/// The events an extension documents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Events {
    /// What it sends.
    pub publishes: Vec<Event>,
    /// What it reacts to.
    pub subscribes: Vec<Event>,
}

/// One documented event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// The topic, such as `skill.changed`.
    pub topic: String,
    /// When it is sent, or what the extension does with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}
