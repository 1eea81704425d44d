//! The levels of isolation and what each of them guarantees.

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A level of isolation, the weakest first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum IsolationLevel {
    /// A plain child process.
    None,
    /// Landlock and system call filters on the user's own view of the machine.
    Landlock,
    /// Own user, mount, process, network, IPC and host name namespaces, with filters inside.
    Namespaces,
}

/// A property that a run has or lacks, independent of the level that provides it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Guarantee {
    /// Only listed paths can be read and written.
    Files,
    /// Environment, memory and descriptors of other processes cannot be read.
    Secrets,
    /// Nothing outside of the run can be reached through a network or a socket.
    Network,
    /// The allowed domains can be reached, and no others.
    Domains,
    /// A path inside of an allowed directory can be denied.
    DenyInside,
    /// No process of the run survives it.
    Tree,
    /// Other processes cannot be signaled, limited or given another priority.
    Signals,
    /// Modes, times and owners of files outside cannot be changed.
    Modes,
    /// The existence of other paths is not visible.
    Names,
    /// `/tmp`, `/dev/shm`, `/proc`, the loopback interface and sockets are the run's own.
    Private,
    /// The memory of all processes together is limited.
    Memory,
    /// The number of processes and threads is limited.
    Tasks,
    /// The limits are kept by a control group of the kernel, not by checks.
    ControlGroup,
}

/// The isolation without which nothing runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsolationRequirement {
    /// The weakest acceptable level.
    pub minimum: IsolationLevel,
    /// The guarantees that the level must have on this machine.
    pub require: BTreeSet<Guarantee>,
}

impl Default for IsolationRequirement {
    fn default() -> Self {
        let require = [Guarantee::Files, Guarantee::Secrets, Guarantee::Network, Guarantee::Tree];
        Self { minimum: IsolationLevel::Landlock, require: require.into() }
    }
}

impl IsolationLevel {
    /// Returns the name as in settings and reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Landlock => "landlock",
            Self::Namespaces => "namespaces",
        }
    }
}

impl Guarantee {
    /// All guarantees, in their order.
    pub const ALL: [Self; 13] = [
        Self::Files,
        Self::Secrets,
        Self::Network,
        Self::Domains,
        Self::DenyInside,
        Self::Tree,
        Self::Signals,
        Self::Modes,
        Self::Names,
        Self::Private,
        Self::Memory,
        Self::Tasks,
        Self::ControlGroup,
    ];

    /// Returns the name as in settings and reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Secrets => "secrets",
            Self::Network => "network",
            Self::Domains => "domains",
            Self::DenyInside => "deny_inside",
            Self::Tree => "tree",
            Self::Signals => "signals",
            Self::Modes => "modes",
            Self::Names => "names",
            Self::Private => "private",
            Self::Memory => "memory",
            Self::Tasks => "tasks",
            Self::ControlGroup => "control_group",
        }
    }
}

impl fmt::Display for IsolationLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
