//! The kernel: boots from manifests, loads extensions, composes turns.
//!
//! The kernel is independent of the extensions' purposes. Skills, too, belong to one extension: the
//! kernel only has the field `uses_skills` and the interface `skill`.
//!
//! Starting points: [`Kernel`] is the callers' handle and connects the parts. [`ExtensionHost`]
//! loads extensions (`load`, `reload`) through `loader` (the only file that calls dlopen) and `abi`
//! (the only conversions). [`AgentRuntime`] composes turns (`turn`) and runs agents (`runtime`).

mod abi;
mod agent;
mod agent_files;
mod agent_loading;
mod agent_runtime;
mod argument_check;
mod blocking;
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
mod extension_host;
mod foreign_text;
mod instance;
mod instructions;
mod kernel;
mod late_load;
mod limits;
mod load;
mod load_error;
mod loader;
mod mistakes;
mod offered;
mod options;
mod plugin;
mod probe;
mod process;
mod published;
mod reload;
mod report;
mod restart;
mod retry;
mod run_gate;
mod runtime;
mod scheduler;
mod services;
mod serving;
mod skill_provider;
mod state;
mod templates;
mod tools;
mod turn;
mod user_message;

pub use agent::{Agent, ResolvedInstructions};
pub use agent_runtime::AgentRuntime;
pub use builder::{BuildCandidate, BuildPlan, ExtensionBuilder};
pub use context_chain::{ContextBlock, ContextOutcome};
pub use elf::ElfError;
pub use error::KernelError;
pub use extension_host::ExtensionHost;
pub use kernel::Kernel;
pub use limits::KernelLimits;
pub use loader::LibraryLoadError;
pub use options::BootOptions;
pub use probe::{ProbeError, ProbeReport, probe_extension};
pub use process::{ProcessExtension, ProcessLauncher, ProcessSpec, process_home};
pub use published::PublishedSkillClient;
pub use restart::RestartedEvent;
pub use runtime::{ExhaustedLimit, RunError, RunRequest};
pub use turn::{ComposedTurn, DEFAULT_AGENT, TurnRequest};
