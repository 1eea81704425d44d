//! The state of a running kernel, and what its operator has to know.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use skillhost_home::LoadRejection;
use skillhost_manifest::ExtensionId;
use skillhost_payload::CallError;

use crate::load_report::LoadedExtension;
use crate::schedule::ScheduleSummary;

/// The state of a running kernel.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KernelStatus {
    /// The id of its process.
    pub pid: u32,
    /// True if a supervisor restarts it.
    pub supervised: bool,
    /// The version of its program.
    pub version: String,
    /// The home.
    pub home: PathBuf,
    /// The time of its start, in milliseconds since 1970.
    pub started_ms: u64,
    /// The time since its start, in milliseconds.
    pub uptime_ms: u64,
    /// The loaded extensions, in load order.
    pub extensions: Vec<StatusExtension>,
    /// The agents by id, also those that cannot take a turn.
    pub agents: Vec<StatusAgent>,
    /// The extensions and agents that are not in use, with the reasons.
    pub rejected: Vec<LoadRejection>,
    /// The model of agents that name none.
    pub model: String,
    /// The reason why that model cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_problem: Option<String>,
    /// The number of active runs of agents.
    pub active_runs: usize,
    /// The requests of runs that wait for an answer of the user.
    pub questions: Vec<OpenQuestionSummary>,
    /// The number of tasks in each state that has any.
    #[serde(default)]
    pub tasks: BTreeMap<String, u64>,
    /// The number of questions in the inbox that wait for a decision.
    #[serde(default)]
    pub open_questions: usize,
    /// The error of the store of tasks, until its next success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_problem: Option<CallError>,
    /// The schedules, the next due one first.
    pub schedules: Vec<ScheduleSummary>,
    /// What the kernel has not applied, and what the client may lack.
    #[serde(flatten)]
    pub notices: KernelNotices,
}

/// A loaded extension in the status of a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusExtension {
    /// Its id.
    pub id: ExtensionId,
    /// The version of the build.
    pub version: String,
}

/// An agent in the status of a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusAgent {
    /// Its id.
    pub id: ExtensionId,
    /// The reason why it cannot take a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A request of a run that waits for an answer of the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenQuestionSummary {
    /// The thread in which the answer is given.
    pub thread: String,
    /// The agent that asks.
    pub agent: String,
    /// The tool that requires approval; `None` for a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The name of the requested secret; `None` for an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// A change of a file that the running kernel has not applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingChange {
    /// The file, or the extension or agent that it belongs to.
    pub subject: String,
    /// The reason why it is not in force.
    pub reason: String,
    /// The next step, if possible as a command.
    pub hint: String,
}

/// The facts about a running kernel that every client displays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelNotices {
    /// The settings file, if its present text is not valid; the last valid one stays in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid_settings: Option<PendingChange>,
    /// The other changes that the kernel has not applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<PendingChange>,
    /// The names of model keys that the kernel lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_keys: Vec<String>,
}

/// The reply of a kernel that was requested to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopOutcome {
    /// The id of its process.
    pub pid: u32,
}

impl From<&LoadedExtension> for StatusExtension {
    fn from(loaded: &LoadedExtension) -> Self {
        Self { id: loaded.id.clone(), version: loaded.version.clone() }
    }
}
