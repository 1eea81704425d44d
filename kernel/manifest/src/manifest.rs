//! What a `manifest.yaml` says.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{AgentManifest, ExtensionId, ToolNames};

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
    pub kind: ExtensionKind,
    /// The extensions that must be loaded before this one, in the order written.
    pub depends_on: Vec<ExtensionDependency>,
    /// The default configuration, always a JSON object; settings may override its keys.
    pub config: serde_json::Value,
    /// The names of the secrets the extension may ask for.
    pub secrets: Vec<String>,
    /// Those among `secrets` that it can do without.
    pub optional_secrets: Vec<String>,
    /// Variables of a process extension's environment, with their values.
    pub env: BTreeMap<String, String>,
    /// Milliseconds until a process extension has answered the handshake; absent: as long as is
    /// usual.
    pub start_timeout_ms: Option<u64>,
    /// How its tools are named, and which are offered; not of an agent.
    pub tools: ToolNames,
    /// Whether the extension is loaded at all.
    pub enabled: bool,
    /// The SHA-256 the library must have, or of the files of a process extension; not of an agent.
    pub sha256: Option<[u8; 32]>,
    /// What an operator has to do before the extension works.
    pub setup_instructions: Option<String>,
    /// The events it publishes, which is documentation, and those it handles.
    pub events: EventDeclarations,
    /// What clients of the MCP server are offered; not of an agent.
    pub mcp: McpExports,
    /// What happens at certain times.
    pub schedules: Vec<ScheduleSpec>,
}

/// What an extension offers to clients of the MCP server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpExports {
    /// The tools they may call, in the order written.
    pub tools: Vec<String>,
}

/// What an extension consists of.
#[derive(Debug, Clone, PartialEq)]
pub enum ExtensionKind {
    /// A dynamic library.
    Library {
        /// The library's base name: `echo` stands for `libecho.so` on Linux.
        entrypoint: String,
    },
    /// A program that speaks the Model Context Protocol on its standard input and output.
    Process {
        /// The program and its arguments; never empty.
        command: Vec<String>,
    },
    /// An agent described by the manifest alone; boxed because it is much larger.
    Agent(Box<AgentManifest>),
}

impl Manifest {
    /// Returns the agent's part of the manifest, if this is an agent.
    pub fn agent(&self) -> Option<&AgentManifest> {
        match &self.kind {
            ExtensionKind::Agent(agent) => Some(agent),
            ExtensionKind::Library { .. } | ExtensionKind::Process { .. } => None,
        }
    }

    /// Returns the library's base name, if this is a library.
    pub fn entrypoint(&self) -> Option<&str> {
        match &self.kind {
            ExtensionKind::Library { entrypoint } => Some(entrypoint),
            ExtensionKind::Process { .. } | ExtensionKind::Agent(_) => None,
        }
    }

    /// Returns the program and its arguments, if this is a process extension.
    pub fn command(&self) -> Option<&[String]> {
        match &self.kind {
            ExtensionKind::Process { command } => Some(command),
            ExtensionKind::Library { .. } | ExtensionKind::Agent(_) => None,
        }
    }
}

/// An extension that another one needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtensionDependency {
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
pub struct EventDeclarations {
    /// What it sends.
    pub publishes: Vec<EventDeclaration>,
    /// What it reacts to.
    pub subscribes: Vec<EventSubscription>,
}

/// An event that an extension reacts to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventSubscription {
    /// The topic, or the beginning of topics up to a dot; `*` stands for all.
    pub topic: String,
    /// What the extension does with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Who handles it; absent where the entry only documents what the extension does by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<EventHandler>,
    /// Milliseconds that one delivery may take; absent: as long as is usual for the handler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// What happens with an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventHandler {
    /// The person who runs the kernel is told.
    NotifyUser {
        /// A template of the line, in Jinja2; absent: the topic and what the event is about.
        text: Option<String>,
    },
    /// An agent is given a task.
    InvokeAgent {
        /// The agent; absent in an agent's own manifest: itself.
        agent: Option<ExtensionId>,
        /// A template of the task, in Jinja2.
        prompt: String,
    },
    /// The library's `EventProvider` is called.
    Custom,
}

/// What an extension does at certain times.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScheduleSpec {
    /// The name, unique in the manifest.
    pub name: String,
    /// When: a cron pattern of five fields.
    pub cron: String,
    /// The time zone of the pattern, by its IANA name; absent: UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// What.
    pub action: ScheduleAction,
    /// Milliseconds that one run may take; absent: as long as is usual for the action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// What a schedule does.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleAction {
    /// The library's `SchedulerProvider` is called with the name of a task.
    Task(String),
    /// A tool of the extension is called.
    Tool {
        /// The tool.
        name: String,
        /// Its arguments, always a JSON object.
        arguments: serde_json::Value,
    },
    /// The agent is given a task.
    Prompt(String),
}

/// One documented event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventDeclaration {
    /// The topic, such as `skill.changed`.
    pub topic: String,
    /// When it is sent, or what the extension does with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}
