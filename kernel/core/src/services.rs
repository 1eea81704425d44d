//! The parts of the kernel above the extension host that it calls.

use async_trait::async_trait;
use skillhost_payload::{
    AgentAnswer, AgentTask, ButtonOutcome, CallError, ChannelCursor, InboundOutcome,
    IncomingMessage, PressedButton, StoreTaskStepRequest, TaskProgressReport, ToolCall, ToolOutput,
};

use crate::state::KernelState;

/// The services of the assembled kernel for extensions and agents.
#[async_trait]
pub trait HostServices: Send + Sync {
    /// Calls a tool in the name of the context's caller.
    async fn call_tool(&self, call: ToolCall) -> Result<ToolOutput, CallError>;

    /// Runs an agent on an extension's task.
    async fn run_agent(&self, task: AgentTask) -> Result<AgentAnswer, CallError>;

    /// Stores a step of a task that an extension executes.
    async fn store_task_step(
        &self,
        extension: &str,
        request: StoreTaskStepRequest,
    ) -> Result<(), CallError>;

    /// Stores the progress of a task that an extension executes.
    async fn report_task_progress(
        &self,
        extension: &str,
        report: TaskProgressReport,
    ) -> Result<(), CallError>;

    /// Receives a message of a person from a channel; it is durable when this returns.
    async fn receive_message(
        &self,
        channel: &str,
        message: IncomingMessage,
    ) -> Result<InboundOutcome, CallError>;

    /// Handles a button that a person pressed in a channel.
    async fn press_button(
        &self,
        channel: &str,
        button: PressedButton,
    ) -> Result<ButtonOutcome, CallError>;

    /// Loads the stored position of a channel.
    async fn load_channel_cursor(&self, channel: &str) -> Result<ChannelCursor, CallError>;

    /// Stores the position of a channel.
    async fn store_channel_cursor(
        &self,
        channel: &str,
        cursor: ChannelCursor,
    ) -> Result<(), CallError>;

    /// Requests a restart of the kernel.
    async fn request_restart(&self, reason: &str, by: &str) -> Result<(), CallError>;

    /// Returns the reason why events are not delivered.
    fn delivery_problem(&self) -> Option<CallError>;
}

/// A part of the kernel that follows the loaded extensions.
#[async_trait]
pub trait StateObserver: Send + Sync {
    /// Follows a new state, before the replaced extension is shut down.
    async fn state_changed(&self, state: &KernelState);
}
