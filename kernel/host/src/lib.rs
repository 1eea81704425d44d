//! The kernel: boots from manifests, loads extensions, composes turns.
//!
//! The kernel is independent of the extensions' purposes. Skills, too, belong to one extension: the
//! kernel only has the field `uses_skills` and the interface `skill`.
//!
//! Starting points: [`Kernel`] is the callers' handle; `boot` and `reload` load extensions through
//! `loader` (the only file that calls dlopen) and `abi` (the only conversions); `context_chain`,
//! `tools` and `agents` compose a turn, `runtime` runs an agent.

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
mod kernel;
mod loader;
mod model;
mod offered;
mod plugin;
mod probe;
mod process;
mod reload;
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
mod timestamp;
mod tools;
mod transcript;
mod trust;
mod user_message;

pub use agents::{Agent, AgentError, InstructionLayer, InstructionLayerKind, ResolvedInstructions};
pub use approvals::{
    AgentFacts, ApprovalAction, ApprovalDetails, ApprovalKind, ApprovalRecord, ApprovalSurface,
    Approvals, ApprovalsError, ApprovedFile, Approver, approval_details, pin_digest,
    read_extension_files,
};
pub use boot::BootOptions;
pub use builder::{
    BuildCandidate, BuildOutcome, BuildPlan, BuildPreview, ExtensionBuilder, RollbackOutcome,
};
pub use channel::{
    ApprovalDecision, ApprovalRequest, Channel, RunEvent, SecretPrompt, SecretReply,
};
pub use context_chain::{ContextBlock, ContextOutcome};
pub use discovery::{DiscoveredManifest, DiscoveryResult, discover_manifests, find_in_sandbox};
pub use elf::ElfError;
pub use error::{KernelError, suggest_similar};
pub use events::{EventBus, home_journal, topic};
pub use exported::PublishedSkillClient;
pub use home::{Environment, Home, HomeError, HomeSource};
pub use installation::Installation;
pub use kernel::{ComposedTurn, DEFAULT_AGENT, Kernel, KernelLimits, TurnRequest};
pub use loader::{LibraryLoadError, LoadTimings};
pub use model::{
    Message, ModelError, ModelErrorKind, ModelMetadata, ModelProvider, ModelReply, ModelRequest,
    ModelSource, ModelTool, ModelToolCall, ReplyChunk, StopReason, TokenPrice, TokenUsage,
};
pub use probe::{ProbeError, ProbeReport, probe_extension};
pub use process::{ProcessExtension, ProcessLauncher, ProcessSpec, process_home};
pub use reload::ReloadOutcome;
pub use report::{LoadPhase, LoadRejection, LoadReport, LoadedAgent, LoadedExtension};
pub use restart::RestartedEvent;
pub use runtime::{ExhaustedLimit, RunError, RunOutcome, RunRequest};
pub use scheduler::{LastRun, ScheduleRunOutcome, ScheduleSummary};
pub use secrets::SecretStore;
pub use settings::{
    BuildSettings, DEFAULT_MODEL, EventsSettings, LoadedSettings, McpCatalog, McpCatalogGlobs,
    McpCatalogKeyword, McpReviewMode, McpSettings, ModelDefinition, ModelsSettings,
    ProcessSettings, ProviderProtocol, ProviderSettings, SettingProvenance, Settings,
    SettingsError,
};
pub use skillhost_events::{
    DeadLetter, Journal, JournalError, JournalErrorKind, ScheduleRun, StoredEvent, TailQuery,
};
pub use thread::{
    ABORTED_CALL_RESULT, ELIDED_RESULT, MessageStatus, Thread, ThreadContents, ThreadError,
    ThreadSkill, ThreadStore, ThreadSummary,
};
pub use tools::OwnedTool;
pub use transcript::{RunEntry, RunHeader, Transcript, TranscriptError};
pub use trust::{DirectoryIdentity, HomeChange, TrustedHome, trust, trusted_homes, untrust};
