//! Extensions that run as separate processes, over the Model Context Protocol.
//!
//! [`ProcessSupervisor`] is the loader of such extensions: it starts the process in a directory of
//! checked files, exchanges messages over its standard input and output, supervises and restarts
//! it, and stops it. Each module has one concern: `loader` makes a [`ProcessSpec`] from a manifest
//! and `containment` its policy,
//! `wire` parses and validates lines, `message_skim` reads lines that are too long for that,
//! `running` is one process from its handshake to its exit, `supervised` restarts it after a crash,
//! `isolation_hints` explains failures by the isolation, `tools` converts tools and results,
//! `tool_inputs` questions and answers of calls, and `channel` receives messages of people.

mod channel;
mod containment;
mod error;
mod isolation_hints;
mod loader;
mod message_skim;
mod running;
mod spec;
mod supervised;
mod tool_inputs;
mod tools;
mod wire;

pub use loader::ProcessSupervisor;
pub use spec::ProcessSpec;
pub use supervised::SupervisedProcess;
