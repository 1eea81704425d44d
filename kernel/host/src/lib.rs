//! The assembled kernel: boots from manifests, serves its clients, restarts and shuts down.
//!
//! The kernel is independent of the extensions' purposes. Skills, too, belong to one extension: the
//! kernel only has the field `uses_skills` and the interface `skill`.
//!
//! Starting points: [`Kernel`] is the callers' handle and connects the parts: the extensions are in
//! [`skillhost_core`], the agents in [`skillhost_agents`]; here are the start and the restart, the
//! delivery of events, schedules, users' messages and the control server.

mod agent_updates;
mod boot;
mod bus;
mod channel_handler;
mod channels;
mod config_watch;
mod console;
#[cfg(unix)]
pub mod control;
mod conversations;
mod file_stamps;
mod kernel;
mod kernel_start;
mod options;
mod probe;
mod question_handler;
mod restart;
mod retry;
mod review_handler;
mod scheduler;
mod serving;
mod status;
mod task_ends;
mod thread_locks;
mod user_message;

pub use console::MessageLines;
pub use kernel::{ConsoleServer, Kernel};
pub use options::BootOptions;
pub use probe::probe_extension;
pub use restart::RestartedEvent;
