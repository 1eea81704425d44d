//! The kernel: boots from manifests, loads extensions, composes turns.
//!
//! It knows nothing about what extensions do. Skills, too, are one extension's business: the kernel
//! knows the field `uses_skills` and the interface `skill`, nothing else.
//!
//! Where to look: [`Kernel`] is what callers hold; `boot` and `reload` bring extensions in through
//! `loader` (the only file that calls dlopen) and `abi` (the only conversions); `context_chain`,
//! `tools` and `agents` are what a turn is made of, `runtime` is what makes an agent run.

mod abi;
mod admission;
mod agent_files;
mod agents;
mod approvals;
mod boot;
mod builder;
mod bus;
mod callbacks;
mod channel;
mod context_chain;
mod context_guard;
#[cfg(unix)]
pub mod control;
mod conversations;
mod data_dir;
mod discovery;
mod elf;
mod error;
mod events;
mod exported;
mod foreign_text;
mod home;
mod installation;
mod instance;
mod journal;
mod kernel;
mod limited_read;
mod loader;
mod model;
mod offered;
mod probe;
mod process;
mod reload;
mod remote;
mod report;
mod restart;
mod retry;
mod runtime;
mod scheduler;
mod secrets;
mod serving;
mod settings;
pub mod supervision;
mod templates;
mod thread;
mod tools;
mod transcript;
mod trust;
mod user_message;
mod write;

pub use agents::{Agent, AgentProblem, Layer, LayerKind, Resolved};
pub use approvals::{
    AgentFacts, ApprovalAction, ApprovalDetails, ApprovalKind, ApprovalRecord, ApprovalSurface,
    Approvals, ApprovalsError, ApprovedFile, Approver, TreeError, approval_details, files_digest,
    pin_digest, read_tree, write_tree,
};
pub use boot::BootOptions;
pub use builder::{
    BuildPlan, BuildPreview, Built, Candidate, ExtensionBuilder, PlannedFile, RolledBack,
};
pub use channel::{ApprovalRequest, Channel, Decision, RunEvent, SecretAsk, SecretReply};
pub use context_chain::{Block, Outcome};
pub use discovery::{Discovered, FoundManifest, discover, find_in_sandbox};
pub use elf::ElfProblem;
pub use error::{CallError, KernelError, similar};
pub use events::{EventBus, journal_of, topic};
pub use exported::Published;
pub use home::{Environment, Home, HomeError, HomeSource};
pub use installation::Installation;
pub use kernel::{DEFAULT_AGENT, Kernel, Limits, Turn, TurnRequest};
pub use loader::{LoadError, LoadTimings};
pub use model::{
    Message, ModelCall, ModelError, ModelErrorKind, ModelFacts, ModelProvider, ModelReply,
    ModelRequest, ModelSource, ModelTool, Piece, Price, StopReason, Usage,
};
pub use probe::{ProbeFailure, Probed, probe};
pub use process::{ProcessExtension, ProcessSource, ProcessStart, process_home};
pub use reload::Reloaded;
pub use report::{LoadReport, LoadedAgent, LoadedExtension, Phase, Rejection};
pub use restart::Restarted;
pub use runtime::{Exhausted, RunError, RunOutcome, RunRequest};
pub use scheduler::{LastRun, Ran, ScheduleSummary};
pub use secrets::Secrets;
pub use settings::{
    BuildSettings, DEFAULT_MODEL, EventsSettings, KnownModel, LoadedSettings, McpCatalog,
    McpCatalogGlobs, McpCatalogWord, McpReview, McpSettings, ModelsSettings, ProcessSettings,
    Provenance, ProviderSettings, Settings, SettingsError, Wire,
};
pub use skillhost_contract::payload::{
    ApprovalPolicy, CallContext, CallOrigin, CatalogScope, ErrorKind, Event, PublishedArgument,
    PublishedBody, PublishedContent, PublishedDetails, PublishedEntry, PublishedFile,
    PublishedPrompt, PublishedSkill, PublishedSkills, ReviewOffer, SkillRef, ToolAudience,
    ToolOutput, ToolSpec,
};
pub use skillhost_events::{
    DeadLetter, Journal, JournalError, JournalErrorKind, ScheduleRun, StoredEvent, TailQuery,
};
pub use thread::{
    CUT_OFF, Heard, LEFT_OUT, Thread, ThreadContents, ThreadError, ThreadSkill, ThreadSummary,
    Threads,
};
pub use tools::OwnedTool;
pub use transcript::{RunEntry, RunHeader, Transcript, TranscriptError};
pub use trust::{DirectoryIdentity, HomeChange, TrustedHome, trust, trusted_homes, untrust};
pub use write::write_atomically;
