//! The kernel: boots from manifests, loads extensions, composes turns.
//!
//! The kernel is independent of the extensions' purposes. Skills, too, belong to one extension: the
//! kernel only has the field `uses_skills` and the interface `skill`.
//!
//! Starting points: [`Kernel`] is the callers' handle and connects the parts. [`ExtensionHost`]
//! loads extensions (`load`, `reload`) through `loader` (the only file that calls dlopen) and `abi`
//! (the only conversions). [`AgentRuntime`] composes turns (`turn`) and runs agents (`runtime`).

mod agent_files;
mod agent_loading;
mod agent_runtime;
mod boot;
mod bus;
#[cfg(unix)]
pub mod control;
mod conversations;
mod exported;
mod instructions;
mod kernel;
mod options;
mod probe;
mod restart;
mod retry;
mod run_gate;
mod runtime;
mod scheduler;
mod serving;
mod templates;
mod turn;
mod user_message;

pub use agent_runtime::AgentRuntime;
pub use kernel::Kernel;
pub use options::BootOptions;
pub use probe::probe_extension;
pub use restart::RestartedEvent;
pub use runtime::{ExhaustedLimit, RunError, RunRequest};
pub use turn::{ComposedTurn, DEFAULT_AGENT, TurnRequest};
