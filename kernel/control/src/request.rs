//! Requests to a kernel, and its responses.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use skillhost_home::ApprovalSurface;
use skillhost_payload::{CallContext, CallError};

use crate::message::UserMessage;
use crate::question::QuestionDecision;

/// A request to a kernel, running or the caller's own. Every connection acts as the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum ControlRequest {
    /// Reloads an extension: returns `ReloadOutcome`.
    Reload {
        /// The extension.
        id: String,
    },
    /// Previews a build: returns `BuildPreview`.
    PreviewBuild {
        /// The extension.
        id: String,
    },
    /// Builds and installs an extension: returns `BuildOutcome`. Cancelled when the client
    /// disconnects.
    Build {
        /// The extension.
        id: String,
        /// The digest of the approved files, from the preview.
        sha256: String,
        /// The surface of the approval.
        #[serde(default = "default_surface")]
        surface: ApprovalSurface,
    },
    /// Restores the previous build: returns `RollbackOutcome`.
    RollBack {
        /// The extension.
        id: String,
    },
    /// Composes one turn: returns `ComposedTurn`.
    Turn {
        /// The agent.
        agent: String,
        /// The user's message.
        prompt: String,
    },
    /// Calls an operator's tool about an agent: returns `ToolOutput`.
    InvokeFor {
        /// The agent.
        agent: String,
        /// The tool.
        tool: String,
        /// The arguments, as JSON text.
        arguments: String,
    },
    /// Calls a tool: returns `ToolOutput`.
    Invoke {
        /// The context of the caller; boxed, as it is much larger than the other requests.
        context: Box<CallContext>,
        /// The tool.
        tool: String,
        /// The arguments, as JSON text.
        arguments: String,
    },
    /// Explains a call of a tool without making it: returns `ToolOutput`.
    ExplainCall {
        /// The context of the caller.
        context: Box<CallContext>,
        /// The tool.
        tool: String,
        /// The arguments, as JSON text.
        arguments: String,
    },
    /// Lists tools: returns `ToolListing`.
    Tools {
        /// The agent whose tools are listed; `None` for the operator's.
        agent: Option<String>,
    },
    /// Lists agents, refreshed: returns a list of `AgentSummary`.
    Agents,
    /// Describes an agent, refreshed: returns `AgentDetails`.
    Agent {
        /// The agent.
        id: String,
    },
    /// Sends a user message to a thread and opens a `MessageConnection`.
    Talk(UserMessage),
    /// Attaches to the pending message of a thread, as for `Talk`.
    Attach {
        /// The thread.
        thread: String,
    },
    /// Decides a stored question: returns the `QuestionClosure` of the decision that counts.
    Decide(QuestionDecision),
    /// Checks the submission of a task of an extension: returns `PreparedTask`.
    PrepareTask {
        /// The kind, `extension/kind`.
        target: String,
        /// The input, as JSON text.
        input: String,
    },
    /// Activates a skill in an idle thread: returns its `SkillRef`.
    Activate {
        /// The thread.
        thread: String,
        /// The skill.
        skill: String,
    },
    /// Summarizes the older messages of an idle thread: returns a `RunOutcome`, whose text tells the
    /// result.
    Compact {
        /// The thread.
        thread: String,
        /// The model, `provider/model`; overrides settings and manifest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// Returns the `LoadReport`.
    Report,
    /// Returns the `KernelStatus`.
    Status,
    /// Returns the `KernelNotices`.
    Notices,
    /// Requests the shutdown of the running kernel: returns `StopOutcome` before it begins.
    Stop,
    /// Returns the report with the health of every library: `ExtensionDiagnosis`.
    Diagnose,
    /// Starts the web console unless it runs: returns a `ConsoleAddress` with a token for one login.
    OpenConsole,
    /// Lists schedules: returns a list of `ScheduleSummary`.
    Schedules,
    /// Runs a schedule now and awaits it: returns `ScheduleRunOutcome`.
    RunSchedule {
        /// The schedule, `extension/name`.
        id: String,
    },
}

fn default_surface() -> ApprovalSurface {
    ApprovalSurface::CommandLine
}

/// The response of a kernel.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlResponse {
    /// The result, as documented for the request.
    Done(Box<RawValue>),
    /// The error.
    Failed(CallError),
}

impl ControlRequest {
    /// Returns whether the request has no further effect if it is sent twice.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        match self {
            Self::PreviewBuild { .. }
            | Self::Turn { .. }
            | Self::Tools { .. }
            | Self::ExplainCall { .. }
            | Self::PrepareTask { .. }
            | Self::Agents
            | Self::Agent { .. }
            | Self::Talk(_)
            | Self::Attach { .. }
            | Self::Activate { .. }
            | Self::Report
            | Self::Status
            | Self::Notices
            | Self::Diagnose
            // Another token, which expires unused.
            | Self::OpenConsole
            | Self::Schedules => true,
            // Sent again, it would report a conflict with itself.
            Self::Decide(_)
            | Self::Reload { .. }
            | Self::Build { .. }
            | Self::RollBack { .. }
            | Self::InvokeFor { .. }
            | Self::Invoke { .. }
            | Self::Stop
            | Self::Compact { .. }
            | Self::RunSchedule { .. } => false,
        }
    }
}
