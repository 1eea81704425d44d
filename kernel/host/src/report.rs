//! What happened when the kernel started.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use skillhost_manifest::ExtensionId;

use crate::loader::LoadTimings;

/// The steps an extension goes through, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Its folder is found and its manifest read.
    Discover,
    /// The manifest is checked.
    Parse,
    /// Its dependencies are put in order.
    Plan,
    /// The library, or the files of a process, are found and checked without running them.
    Probe,
    /// The library is opened and its layout checked.
    Open,
    /// The extension is created.
    New,
    /// It prepares for its first call; a process is started.
    Start,
    /// Its tools, context and interfaces are taken into the kernel's tables.
    Wire,
    /// An agent's instructions are put together.
    Resolve,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discover => "discover",
            Self::Parse => "parse",
            Self::Plan => "plan",
            Self::Probe => "probe",
            Self::Open => "open",
            Self::New => "new",
            Self::Start => "start",
            Self::Wire => "wire",
            Self::Resolve => "resolve",
        })
    }
}

/// A library that is loaded, or a process that runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoadedExtension {
    /// Its id.
    pub id: ExtensionId,
    /// The name for people.
    pub name: String,
    /// Version of the build, as it says itself.
    pub version: String,
    /// The library's file, or that of the program.
    pub library: PathBuf,
    /// The command of a process extension as its manifest has it; empty for a library.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Names of its tools.
    pub tools: Vec<String>,
    /// Its place in the context chain.
    pub context_priority: Option<i32>,
    /// Whether it has a background service.
    pub service: bool,
    /// Other interfaces it answers, such as `skill`.
    pub interfaces: Vec<String>,
    /// How long opening it took.
    pub timings: LoadTimings,
}

/// An agent whose instructions are in place.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoadedAgent {
    /// Its id.
    pub id: ExtensionId,
    /// The name for people.
    pub name: String,
}

/// An extension or agent that is not in use.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Rejection {
    /// Its id, or the name of its folder where the manifest could not be read.
    pub id: String,
    /// Where it failed.
    pub phase: Phase,
    /// Why; several lines where there are several reasons.
    pub reason: String,
    /// What to do about it; may be empty.
    pub hint: String,
    /// Its manifest.
    pub manifest: PathBuf,
}

/// What happened when the kernel started. One bad extension never stops the others.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LoadReport {
    /// Libraries and processes in use, in load order.
    pub loaded: Vec<LoadedExtension>,
    /// Agents in use, in load order.
    pub agents: Vec<LoadedAgent>,
    /// What is not in use, and why.
    pub rejected: Vec<Rejection>,
    /// Switched off by their manifests.
    pub disabled: Vec<ExtensionId>,
    /// Worth knowing, nothing failed.
    pub notes: Vec<String>,
}
