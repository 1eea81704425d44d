//! Background tasks that an extension executes.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::context::CallContext;

/// The interface of extensions that execute tasks, called through the generic call.
pub mod task_interface {
    /// Name of the interface.
    pub const NAME: &str = "task";
    /// `null` → `[`[`crate::TaskKindSpec`]`]`.
    pub const KINDS: &str = "kinds";
    /// [`crate::PrepareTaskRequest`] → [`crate::PreparedTask`].
    pub const PREPARE: &str = "prepare";
    /// [`crate::TaskRunRequest`] → [`crate::TaskRunReply`].
    pub const RUN: &str = "run";
}

/// A kind of task that an extension executes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskKindSpec {
    /// The name, unique within the extension.
    pub name: String,
    /// The purpose, for people and models.
    pub description: String,
    /// The JSON Schema of the input, an object.
    pub input_schema: serde_json::Value,
    /// Whether an agent's submission requires the approval of a person.
    #[serde(default)]
    pub needs_approval: bool,
}

impl TaskKindSpec {
    /// Creates a kind that requires no approval.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: serde_json::Value,
    ) -> Self {
        let (name, description) = (name.into(), description.into());
        Self { name, description, input_schema, needs_approval: false }
    }

    /// Declares that each submission of an agent requires the approval of a person.
    #[must_use]
    pub fn needs_approval(mut self) -> Self {
        self.needs_approval = true;
        self
    }
}

/// A request to check an input before its task is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PrepareTaskRequest {
    /// The context of the submission.
    pub context: CallContext,
    /// The kind.
    pub kind: String,
    /// The input.
    pub input: Box<RawValue>,
}

/// A checked submission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedTask {
    /// A short text for lists.
    pub title: String,
}

/// A request to execute a task, or to continue it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskRunRequest {
    /// The context: that of the submitter, with the remaining time.
    pub context: CallContext,
    /// The task and the claim under which it runs.
    pub claim: TaskClaimRef,
    /// The kind.
    pub kind: String,
    /// The prepared input.
    pub input: Box<RawValue>,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The prefix of the idempotency keys of steps: the same for every attempt, and for a retry that
    /// continues the task.
    pub key: String,
    /// The stored steps of earlier attempts, in order.
    pub steps: Vec<TaskStep>,
    /// The answers to the questions of earlier attempts.
    pub answers: Vec<TaskAnswer>,
}

/// A task and the number of its claim, which every write of a run carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskClaimRef {
    /// The id of the task.
    pub task: String,
    /// The number of the claim.
    pub epoch: u64,
}

/// A stored step of a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskStep {
    /// The name, unique within the task.
    pub name: String,
    /// The result.
    pub result: Box<RawValue>,
}

/// A question of a task to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskQuestion {
    /// The name, unique within the task.
    pub name: String,
    /// The text.
    pub question: String,
    /// The permitted answers; empty permits any text.
    pub options: Vec<String>,
}

/// The end of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskAnswer {
    /// The name of the question.
    pub name: String,
    /// The answer; `None` if it was withdrawn or expired.
    pub answer: Option<String>,
}

/// The result of a run of a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskRunReply {
    /// It has completed.
    Completed {
        /// The text of the result.
        text: String,
        /// The value for programs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured: Option<Box<RawValue>>,
    },
    /// It waits for answers; the next run begins from its beginning and skips stored steps.
    Asks(Vec<TaskQuestion>),
}

/// A step to store; the run continues when it is durable.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoreTaskStepRequest {
    /// The claim of the run.
    pub claim: TaskClaimRef,
    /// The step.
    pub step: TaskStep,
}

/// A report of a run's progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskProgressReport {
    /// The claim of the run.
    pub claim: TaskClaimRef,
    /// The finished units.
    pub done: f64,
    /// All units, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// A short text.
    pub text: String,
}
