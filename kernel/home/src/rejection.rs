//! Extensions and agents that could not be loaded.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// An extension or agent that could not be loaded.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoadRejection {
    /// Its id, or the name of its directory if the manifest could not be read.
    pub id: String,
    /// The failed phase.
    pub phase: LoadPhase,
    /// The reasons, one per line.
    pub reason: String,
    /// A hint; may be empty.
    pub hint: String,
    /// Its manifest.
    pub manifest: PathBuf,
}

/// The steps of loading an extension, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadPhase {
    /// The directory is found and the manifest read.
    Discover,
    /// The manifest is checked.
    Parse,
    /// An extension in the sandbox is compared with its approval.
    Approve,
    /// Its dependencies are put in order.
    Plan,
    /// The library, or the files of a process, are found and checked without running them.
    Probe,
    /// The library is opened and its layout checked.
    Open,
    /// The extension is created.
    New,
    /// The extension prepares for its first call; a process is started.
    Start,
    /// Its tools, context and interfaces are added to the kernel's tables.
    Wire,
    /// An agent's instructions are resolved.
    Resolve,
}

impl fmt::Display for LoadPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discover => "discover",
            Self::Parse => "parse",
            Self::Approve => "approve",
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
