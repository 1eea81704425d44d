//! The extensions of a kernel: how they are loaded, called and replaced.
//!
//! Starting points: [`ExtensionHost`] loads extensions (`load`, `reload`) through `loader` (the only
//! file that calls dlopen) and `abi` (the only conversions). The rest of the kernel sees each as an
//! [`Instance`] of a [`Plugin`] of any kind; [`KernelState`] holds the loaded extensions and is replaced
//! as a whole. Agents and the assembled kernel are above this crate, which reaches them through
//! [`HostServices`] and [`StateObserver`] alone.

mod abi;
mod agent;
mod argument_check;
mod blocking;
mod builder;
mod callbacks;
mod context_chain;
mod context_guard;
mod elf;
mod error;
mod extension_calls;
mod extension_host;
pub mod foreign_text;
mod instance;
mod late_load;
mod limits;
mod load;
mod load_error;
mod loader;
pub mod mistakes;
mod offered_names;
mod plugin;
mod plugin_loader;
mod probe;
mod program_source;
mod program_tools;
mod reload;
mod services;
mod skill_provider;
mod state;
mod tools;

pub use agent::{Agent, ResolvedInstructions};
pub use argument_check::ArgumentCheck;
pub use blocking::spawn_blocking;
pub use builder::{BuildCandidate, BuildPlan, ExtensionBuilder, NoBuilder};
pub use context_chain::{
    ContextBlock, ContextChain, ContextOutcome, PinnedChain, SEPARATOR, compose_system_prompt,
};
pub use elf::ElfError;
pub use error::{KernelError, NamedObject};
pub use extension_calls::ExtensionCalls;
pub use extension_host::{ExtensionHost, ExtensionHostOptions};
pub use instance::{Instance, PinnedInstance};
pub use late_load::{ManifestMap, missing_dependency};
pub use limits::KernelLimits;
pub use load::{LoadedManifests, to_rejection};
pub use load_error::ExtensionLoadError;
pub use loader::{BundledExtension, LibraryLoadError};
pub use plugin::{CallGrant, ContextReply, LoadedPlugin, Plugin, PreparedCall};
pub use plugin_loader::{LoadContext, PluginLoader};
pub use probe::{ProbeError, ProbeReport, probe_extension};
pub use program_source::ProgramToolSource;
pub use reload::elapsed_ms;
pub use services::{HostServices, StateObserver};
pub use skill_provider::{
    fetch_skill_generation, get_skill, get_skill_tree, list_skill_programs, report_script_run,
};
pub use state::KernelState;
pub use tools::{ListedTools, ProgramTools, ToolEntry, ToolError, ToolTable, schema_error};
