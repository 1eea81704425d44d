//! The isolation that a machine offers, and what keeps it from offering more.

use serde::Serialize;
use skillhost_policy::{Guarantee, IsolationLevel};

use crate::isolation::FailedLevel;

/// The isolation that this machine offers to a run with few permissions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MachineIsolation {
    /// The name and version of the kernel.
    pub kernel: String,
    /// The version of Landlock; 0 if there is none.
    pub landlock_abi: i32,
    /// The levels, the strongest first.
    pub levels: Vec<MachineLevel>,
    /// What is missing, and how to get it; empty on a machine with everything.
    pub gaps: Vec<IsolationGap>,
}

/// A level as this machine offers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MachineLevel {
    /// The level.
    pub level: IsolationLevel,
    /// The step that failed; `None` if the level can be reached.
    pub failure: Option<FailedLevel>,
    /// Whether a control group keeps the limits.
    pub cgroup: bool,
    /// The guarantees that the level does not have here.
    pub missing: Vec<Guarantee>,
}

/// Something that the machine lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IsolationGap {
    /// The level that cannot be reached; `None` if a level lacks a guarantee only.
    pub level: Option<IsolationLevel>,
    /// The cause, such as a setting of the kernel with its value.
    pub finding: String,
    /// What to do: commands and configuration, possibly of several lines.
    pub remedy: String,
}

impl MachineIsolation {
    /// Describes the levels that can be reached, and the machine, without line breaks.
    #[must_use]
    pub fn summarize(&self) -> String {
        let reached = self.levels.iter().filter(|level| level.failure.is_none());
        let reached: Vec<_> = reached.map(MachineLevel::describe).collect();
        let facts = self.facts();
        match reached.is_empty() {
            true => format!("none ({facts}): programs that have to be contained are refused"),
            false => format!("{} ({facts})", reached.join(", ")),
        }
    }

    fn facts(&self) -> String {
        match self.landlock_abi {
            0 => self.kernel.clone(),
            version => format!("{}, Landlock version {version}", self.kernel),
        }
    }

    /// Returns the strongest level that can be reached.
    #[must_use]
    pub fn best_level(&self) -> Option<IsolationLevel> {
        self.levels.iter().find(|level| level.failure.is_none()).map(|level| level.level)
    }
}

impl MachineLevel {
    /// Returns the name of the level with the guarantees that it lacks.
    fn describe(&self) -> String {
        // The control group has a finding of its own.
        let missing = self.missing.iter().map(|guarantee| guarantee.as_str());
        let missing: Vec<_> = missing.filter(|name| *name != "control_group").collect();
        match missing.is_empty() {
            true => self.level.to_string(),
            false => format!("{} without {}", self.level, missing.join(" ")),
        }
    }
}
