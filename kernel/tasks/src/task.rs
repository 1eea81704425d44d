//! Tasks and their states.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::amounts::{TaskAmounts, TaskBudget};
use crate::ids::{QuestionId, TaskId};

/// What executes a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// A run of an agent; the target is its id, the input its task.
    Agent,
    /// A tool call; the target is the tool, the input its arguments.
    Tool,
    /// A `TaskProvider` of an extension; the target is `EXTENSION/KIND`.
    Ext,
    /// A message to a channel; the target is the channel.
    Deliver,
}

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Waits for a worker, from its due time on.
    Ready,
    /// A worker has claimed it.
    Running,
    /// Waits for people, tasks or a time; no worker has it.
    Waiting,
    /// Ended with a result.
    Completed,
    /// Ended with an error.
    Failed,
    /// Ended because of a request to cancel it.
    Cancelled,
}

impl TaskState {
    /// Returns whether no transition leads out of the state.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Returns the name, as stored and printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl TaskKind {
    /// Returns the name, as stored and printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Tool => "tool",
            Self::Ext => "ext",
            Self::Deliver => "deliver",
        }
    }
}

/// The claim of a worker: every write of a run carries it and fails once it is not the current one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskClaim {
    /// The task.
    pub task: TaskId,
    /// The number of the claim, from 1.
    pub epoch: u64,
}

/// The submitter of a task, from the context of the call, never from its arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSubmitter {
    /// The kind of submitter.
    pub origin: SubmitterOrigin,
    /// The agent, extension, schedule or event subscription.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The thread that gets the notice of the task's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The principal of an MCP client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The id of the user message or event that started the chain of calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
}

/// The kind of a task's submitter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubmitterOrigin {
    /// A person at the command line.
    #[default]
    Operator,
    /// A model running as an agent.
    Agent,
    /// An extension.
    Extension,
    /// A client of the MCP server.
    Mcp,
    /// A scheduled job.
    Schedule,
    /// An event subscription.
    Event,
}

/// What the submitting thread gets when a task ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndNotice {
    /// A notice in the thread.
    #[default]
    Note,
    /// A notice in the thread, and a turn for its agent.
    Wake,
    /// Only the event.
    Silent,
}

/// The progress that a run has reported.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskProgress {
    /// The finished units.
    pub done: f64,
    /// All units, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// A short text, untrusted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// What a waiting task waits for: all of the listed parts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskWaits {
    /// Open questions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<QuestionId>,
    /// Tasks that have not ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskId>,
    /// Whether the end of one task is enough.
    pub mode: WaitMode,
    /// Tasks that have to complete before this one starts; the failure of one is its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<TaskId>,
    /// A time, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
}

impl TaskWaits {
    /// Returns whether no part is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.questions.is_empty()
            && self.tasks.is_empty()
            && self.after.is_empty()
            && self.until_ms.is_none()
    }

    /// Returns every task that is waited for.
    pub(crate) fn all_tasks(&self) -> impl Iterator<Item = &TaskId> {
        self.tasks.iter().chain(&self.after)
    }
}

/// How many of several tasks have to end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitMode {
    /// Every one.
    #[default]
    All,
    /// One.
    Any,
}

/// The result of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum TaskOutcome {
    /// It completed.
    Completed {
        /// The text of the result, untrusted.
        text: String,
        /// The structured result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured: Option<Value>,
        /// The tool that ran reported an error, or a person refused a call.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    /// It failed.
    Failed {
        /// The reason.
        reason: FailureReason,
        /// The error, untrusted.
        message: String,
        /// The remedy.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        hint: String,
    },
    /// It was cancelled.
    Cancelled {
        /// Who cancelled it.
        by: String,
    },
}

impl TaskOutcome {
    /// Creates a failure without a hint.
    #[must_use]
    pub fn failed(reason: FailureReason, message: impl Into<String>) -> Self {
        Self::Failed { reason, message: message.into(), hint: String::new() }
    }

    /// Returns the terminal state of a task with this outcome.
    #[must_use]
    pub fn state(&self) -> TaskState {
        match self {
            Self::Completed { .. } => TaskState::Completed,
            Self::Failed { .. } => TaskState::Failed,
            Self::Cancelled { .. } => TaskState::Cancelled,
        }
    }
}

/// The reason of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureReason {
    /// Its run returned an error.
    Error,
    /// Its budget is exhausted.
    Budget,
    /// Its deadline has passed.
    Deadline,
    /// A task that it comes after did not complete.
    Dependency,
    /// Its worker was lost too often.
    Lost,
    /// Its target does not exist, or was rejected.
    Target,
    /// Its target panicked or violated its protocol.
    Crash,
}

/// A task. Its input is stored apart, as it never changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The id.
    pub id: TaskId,
    /// What executes it.
    pub kind: TaskKind,
    /// The agent, tool, provider or channel.
    pub target: String,
    /// A short text for people, untrusted.
    pub title: String,
    /// sha256 of the input, hexadecimal.
    pub input_sha256: String,
    /// The state.
    pub state: TaskState,
    /// Tasks of a lane run one after the other, in the order of their submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// Higher ones are claimed first.
    pub priority: i32,
    /// The earliest start, in milliseconds since 1970.
    pub due_ms: u64,
    /// The due time is a pause before a retry.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_backoff: bool,
    /// The task fails at this time, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// The number of claims that count as attempts.
    pub attempt: u32,
    /// The number of attempts that were lost since the last stored line.
    pub stalled: u32,
    /// The number of retries after transient errors.
    pub retries: u32,
    /// The number of the current or last claim.
    pub epoch: u64,
    /// The worker of the current claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The end of the current claim's lease, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// The limits.
    pub budget: TaskBudget,
    /// What was spent, with the subtasks that have ended.
    pub spent: TaskAmounts,
    /// What is reserved for open subtasks.
    pub reserved: TaskAmounts,
    /// The task that submitted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TaskId>,
    /// The outermost task; its own id for a task without a parent.
    pub root: TaskId,
    /// The number of tasks above it.
    pub depth: u32,
    /// What a waiting task waits for.
    #[serde(default, skip_serializing_if = "TaskWaits::is_empty")]
    pub waits: TaskWaits,
    /// The namespace of the key.
    pub scope: String,
    /// The idempotency key of the submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The submitter.
    pub submitter: TaskSubmitter,
    /// What the thread of the submitter gets at the end.
    pub on_end: EndNotice,
    /// The last reported progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<TaskProgress>,
    /// Who requested the cancellation of the running task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<String>,
    /// The result of a terminal task.
    pub outcome: Option<TaskOutcome>,
    /// The task that this one repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<TaskId>,
    /// The number of stored lines.
    pub lines: u64,
    /// The time of the submission, in milliseconds since 1970.
    pub created_ms: u64,
    /// The time of the first claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<u64>,
    /// The time of the last transition.
    pub changed_ms: u64,
    /// The time of the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
}

impl Task {
    /// Returns the claim under which the task runs, or `None` if it does not run.
    #[must_use]
    pub fn current_claim(&self) -> Option<TaskClaim> {
        (self.state == TaskState::Running)
            .then(|| TaskClaim { task: self.id.clone(), epoch: self.epoch })
    }
}
