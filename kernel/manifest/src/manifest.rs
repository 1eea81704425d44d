//! The parsed form of a `manifest.yaml`.

use std::collections::BTreeMap;

use serde::Serialize;
use skillhost_policy::PolicyLayer;

use crate::{AgentManifest, ExtensionId, ToolNames};

/// An extension as its validated `manifest.yaml` describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The id of the extension; unique among all that are loaded together.
    pub id: ExtensionId,
    /// The display name.
    pub name: String,
    /// The extension's own version: up to three numbers, then optionally `-pre` and `+build`.
    pub version: Option<String>,
    /// The purpose of the extension, in a sentence or two; empty if the manifest has none.
    pub description: String,
    /// The kind of the extension: a library, a process or a declarative agent.
    pub kind: ExtensionKind,
    /// The extensions that must be loaded before this one, in the order written.
    pub depends_on: Vec<ExtensionDependency>,
    /// The default configuration, always a JSON object; settings may override its keys.
    pub config: serde_json::Value,
    /// The names of the secrets that the extension may request.
    pub secrets: Vec<String>,
    /// The members of `secrets` that the extension does not require.
    pub optional_secrets: Vec<String>,
    /// The environment variables of a process extension, with their values.
    pub env: BTreeMap<String, String>,
    /// The timeout of a process extension's handshake in milliseconds; `None` means the default.
    pub start_timeout_ms: Option<u64>,
    /// A process extension is a channel, which carries messages of people.
    pub is_channel: bool,
    /// The permissions and limits that a process extension requests.
    pub sandbox: Option<PolicyLayer>,
    /// The naming and selection of its tools; not for agents.
    pub tools: ToolNames,
    /// The extension is loaded.
    pub enabled: bool,
    /// The SHA-256 of the library or of the files of a process extension; not for agents.
    pub sha256: Option<[u8; 32]>,
    /// The steps that an operator takes before the extension works.
    pub setup_instructions: Option<String>,
    /// The events that it publishes, for documentation, and those that it handles.
    pub events: EventDeclarations,
    /// The exports to clients of the MCP server; not for agents.
    pub mcp: McpExports,
    /// The scheduled jobs.
    pub schedules: Vec<ScheduleSpec>,
}

/// The exports of an extension to clients of the MCP server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpExports {
    /// The tools that clients may call, in the order written.
    pub tools: Vec<String>,
}

/// The kind of an extension.
#[derive(Debug, Clone, PartialEq)]
pub enum ExtensionKind {
    /// A dynamic library.
    Library {
        /// The library's base name: `echo` means `libecho.so` on Linux.
        entrypoint: String,
    },
    /// A program that speaks the Model Context Protocol on its standard input and output.
    Process {
        /// The program and its arguments; never empty.
        command: Vec<String>,
    },
    /// An agent described by the manifest alone.
    // Boxed, because it is much larger than the other variants.
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

/// A dependency on another extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtensionDependency {
    /// The id of the required extension.
    pub id: ExtensionId,
    /// The dependent loads without it. An optional dependency only affects the order.
    pub optional: bool,
    /// The line of the entry in the manifest, from 1.
    pub line: u32,
    /// The column of the entry, in characters from 1.
    pub column: u32,
}

/// The events that an extension publishes and subscribes to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct EventDeclarations {
    /// The published events.
    pub publishes: Vec<EventDeclaration>,
    /// The subscriptions.
    pub subscribes: Vec<EventSubscription>,
}

/// A subscription to events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventSubscription {
    /// A topic, or a prefix of topics up to a dot; `*` matches all.
    pub topic: String,
    /// A description of the reaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The handler; `None` if the entry only documents a subscription made by code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<EventHandler>,
    /// The timeout of one delivery in milliseconds; `None` means the default of the handler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// A handler of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventHandler {
    /// Displays a line to the operator.
    NotifyUser {
        /// A Jinja template of the line; `None` means the topic and a summary of the payload.
        text: Option<String>,
    },
    /// Submits a task to an agent.
    InvokeAgent {
        /// The agent; `None` in an agent's own manifest means that agent.
        agent: Option<ExtensionId>,
        /// A Jinja template of the task.
        prompt: String,
    },
    /// Calls the library's `EventProvider`.
    Custom,
}

/// A scheduled job of an extension.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScheduleSpec {
    /// The name, unique in the manifest.
    pub name: String,
    /// A cron pattern of five fields.
    pub cron: String,
    /// The IANA name of the pattern's time zone; `None` means UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// The action of a run.
    pub action: ScheduleAction,
    /// The timeout of one run in milliseconds; `None` means the default of the action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// The action of a scheduled job.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleAction {
    /// Calls the library's `SchedulerProvider` with the name of a task.
    Task(String),
    /// Calls a tool of the extension.
    Tool {
        /// The name of the tool.
        name: String,
        /// The arguments, always a JSON object.
        arguments: serde_json::Value,
    },
    /// Submits this task to the agent.
    Prompt(String),
}

/// A published event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventDeclaration {
    /// The topic, such as `skill.changed`.
    pub topic: String,
    /// A description of the event and its cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}
