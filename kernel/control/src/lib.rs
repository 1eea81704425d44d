//! The control socket of a home, by which one command reaches the kernel that another command runs.
//!
//! A request is one JSON line, and so is its response. The directory of the socket is private to its
//! owner, and each end checks that the peer is the same user: a peer could also replace the libraries
//! that the kernel loads. The server is part of the kernel.
//!
//! The types of the responses are here, too: a command with a kernel of its own gets the same ones.
//! `supervision` and `backoff` are for processes that restart a kernel or an extension.

mod agent;
mod backoff;
mod build;
#[cfg(unix)]
mod client;
mod console;
mod diagnosis;
#[cfg(unix)]
mod endpoint;
#[cfg(unix)]
mod lines;
mod load_report;
mod message;
mod question;
mod request;
mod schedule;
mod status;
mod supervision;
mod tool_listing;

pub use agent::{
    AgentDetails, AgentError, AgentStatus, AgentSummary, DEFAULT_AGENT, InstructionLayer,
    InstructionLayerKind,
};
pub use backoff::{ExitCause, RestartBackoff, RestartDecision, RestartLimits};
pub use build::{BuildOutcome, BuildPreview, ReloadOutcome, RollbackOutcome};
#[cfg(unix)]
pub use client::{MessageConnection, RequestError, is_gone, send_request, socket_path};
pub use console::ConsoleAddress;
pub use diagnosis::{
    ExtensionDiagnosis, ExtensionHealth, UnresolvedModel, find_containment_problems,
};
#[cfg(unix)]
pub use endpoint::{check_peer, prepare_directory};
#[cfg(unix)]
pub use lines::{LINE_LIMIT, spawn_line_reader, with_timeout, write_line};
pub use load_report::{LoadReport, LoadTimings, LoadedAgent, LoadedExtension};
pub use message::{
    ChannelOrigin, ChannelRole, ClientMessage, MessageError, MessageFailure, ServerMessage,
    UserMessage,
};
pub use question::{DecisionSurface, QuestionClosure, QuestionDecision, QuestionReference};
pub use request::{ControlRequest, ControlResponse};
pub use schedule::{LastRun, ScheduleRunOutcome, ScheduleSummary};
pub use status::{
    KernelNotices, KernelStatus, OpenQuestionSummary, PendingChange, StatusAgent, StatusExtension,
    StopOutcome,
};
pub use supervision::{
    KernelLock, KernelLockError, LockHolder, RESTART_CODE, SUPERVISED, SupervisorLock,
    SupervisorLockError,
};
pub use tool_listing::{FailedListing, OwnedTool, ToolListing};
