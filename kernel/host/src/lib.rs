//! The kernel: boots from manifests, loads extensions, composes turns.
//!
//! The kernel is independent of the extensions' purposes. Skills, too, belong to one extension: the
//! kernel only has the field `uses_skills` and the interface `skill`.
//!
//! Starting points: [`Kernel`] is the callers' handle; `boot` and `reload` load extensions through
//! `loader` (the only file that calls dlopen) and `abi` (the only conversions); `context_chain`,
//! `tools` and `agents` compose a turn, `runtime` runs an agent.

mod abi;
mod agent_files;
mod agents;
mod boot;
mod builder;
mod bus;
mod callbacks;
mod context_chain;
mod context_guard;
#[cfg(unix)]
pub mod control;
mod conversations;
mod elf;
mod error;
mod exported;
mod foreign_text;
mod instance;
mod kernel;
mod loader;
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
mod serving;
pub mod supervision;
mod templates;
mod tools;
mod user_message;

pub use agents::{Agent, AgentError, InstructionLayer, InstructionLayerKind, ResolvedInstructions};
pub use boot::BootOptions;
pub use builder::{
    BuildCandidate, BuildOutcome, BuildPlan, BuildPreview, ExtensionBuilder, RollbackOutcome,
};
pub use context_chain::{ContextBlock, ContextOutcome};
pub use elf::ElfError;
pub use error::KernelError;
pub use exported::PublishedSkillClient;
pub use kernel::{ComposedTurn, DEFAULT_AGENT, Kernel, KernelLimits, TurnRequest};
pub use loader::{LibraryLoadError, LoadTimings};
pub use probe::{ProbeError, ProbeReport, probe_extension};
pub use process::{ProcessExtension, ProcessLauncher, ProcessSpec, process_home};
pub use reload::ReloadOutcome;
pub use report::{LoadReport, LoadedAgent, LoadedExtension};
pub use restart::RestartedEvent;
pub use runtime::{ExhaustedLimit, RunError, RunRequest};
pub use scheduler::{LastRun, ScheduleRunOutcome, ScheduleSummary};
pub use tools::OwnedTool;
