//! The control of runs by the tasks that they work on, and the notices of tasks for threads.

use async_trait::async_trait;
use skillhost_payload::{CallContext, CallError, CallOrigin};

use super::RunError;

/// The control of a run, and of the runs below it, by the task that it works on.
#[async_trait]
pub trait RunControl: Send + Sync {
    /// Returns the origin of the task.
    fn origin(&self) -> CallOrigin;

    /// Charges the estimate of a model request to the task, before the request.
    ///
    /// # Errors
    /// The error that ends the run: the request must not be made.
    async fn start_request(&self, estimate: RequestEstimate) -> Result<(), RunError>;

    /// Notes the end of a model request: its usage, which the budget has by now, replaces the
    /// estimate.
    fn finish_request(&self, estimate: RequestEstimate);

    /// Checks that the task may begin a tool call now.
    ///
    /// # Errors
    /// The error of the call, which must not be made.
    async fn check_call(&self) -> Result<(), CallError>;

    /// Delegates a task of a call to another agent as a subtask, or finds the one of an earlier
    /// attempt of the call.
    ///
    /// # Errors
    /// The error of the call if the subtask cannot be submitted.
    async fn delegate(
        &self,
        context: &CallContext,
        agent: &str,
        task: String,
    ) -> Result<DelegationState, CallError>;
}

/// The state of a delegation to a subtask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DelegationState {
    /// The subtask has not ended: the call is parked.
    Waiting,
    /// The reply of the agent, or its error.
    Ended(Result<String, CallError>),
}

/// The estimate of a model request.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RequestEstimate {
    /// The tokens of the request, without the reply.
    pub tokens: u64,
    /// The cost of these tokens; `None` where the model's price is unknown.
    pub cost: Option<f64>,
}

/// A notice for a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadNotice {
    /// The key: a thread has each notice once.
    pub key: String,
    /// The text, an element of the kernel.
    pub text: String,
}

/// A source of notices for threads that a run has open.
#[async_trait]
pub trait NoticeSource: Send + Sync {
    /// Returns the notices for a thread that it may not have yet; with `is_first`, before the first
    /// model request of a run.
    async fn pending_notices(&self, thread: &str, is_first: bool) -> Vec<ThreadNotice>;
}
