//! Services of the kernel for extensions.

use serde::{Deserialize, Serialize};

/// Methods of `HostApi::call`.
pub mod host_method {
    /// [`crate::Event`] without a source → `null`.
    pub const EMIT: &str = "emit";
    /// [`crate::SubscribeRequest`] → [`crate::SubscriptionId`].
    pub const SUBSCRIBE: &str = "subscribe";
    /// [`crate::SubscriptionId`] → the next [`crate::Event`]; waits for it.
    pub const NEXT_EVENT: &str = "next_event";
    /// [`crate::SubscriptionId`] → `null`.
    pub const UNSUBSCRIBE: &str = "unsubscribe";
    /// [`crate::ToolCall`] → [`crate::ToolOutput`].
    pub const CALL_TOOL: &str = "call_tool";
    /// Prefix of `provider/<extension>/<interface>/<method>`: bytes → bytes.
    pub const PROVIDER: &str = "provider/";
    /// [`crate::UserNotice`] → `null`.
    pub const NOTIFY: &str = "notify";
    /// [`crate::SecretRequest`] → [`crate::SecretValue`].
    pub const SECRET: &str = "secret";
    /// [`crate::AgentTask`] → [`crate::AgentAnswer`].
    pub const RUN_AGENT: &str = "run_agent";
    /// [`crate::StoreTaskStepRequest`] → `null`, when the step is durable.
    pub const STORE_TASK_STEP: &str = "store_task_step";
    /// [`crate::TaskProgressReport`] → `null`.
    pub const REPORT_TASK_PROGRESS: &str = "report_task_progress";
    /// [`crate::IncomingMessage`] → [`crate::InboundOutcome`], when the message is durable.
    pub const RECEIVE_MESSAGE: &str = "receive_message";
    /// [`crate::PressedButton`] → [`crate::ButtonOutcome`].
    pub const PRESS_BUTTON: &str = "press_button";
    /// `null` → [`crate::ChannelCursor`].
    pub const LOAD_CHANNEL_CURSOR: &str = "load_channel_cursor";
    /// [`crate::ChannelCursor`] → `null`, when it is durable.
    pub const STORE_CHANNEL_CURSOR: &str = "store_channel_cursor";
    /// [`crate::UserNotice`] with the reason → `null`.
    pub const REQUEST_RESTART: &str = "request_restart";
}

/// A notice for the operator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UserNotice {
    /// One line of text.
    pub text: String,
}

/// A request for a secret named in the manifest's `secrets`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SecretRequest {
    /// The name in the manifest.
    pub name: String,
}

/// A secret value; no `Debug`, so that it cannot be logged by accident.
#[derive(Clone, Serialize, Deserialize)]
pub struct SecretValue {
    /// The value, or `None` if the secret is not set.
    pub value: Option<String>,
}
