//! Scheduled tasks.

use serde::{Deserialize, Serialize};

use crate::context::CallContext;

/// The interface of extensions with scheduled tasks, called through the generic call.
pub mod scheduler_interface {
    /// Name of the interface.
    pub const NAME: &str = "scheduler";
    /// [`crate::RunTaskRequest`] → one line that summarizes the run, or `null`.
    pub const RUN: &str = "run";
}

/// A request to run a task of a schedule that is due.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunTaskRequest {
    /// The context of an operator.
    pub context: CallContext,
    /// The name of the task, from the manifest.
    pub task: String,
}
