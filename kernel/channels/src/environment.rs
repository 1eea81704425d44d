//! The parts of a kernel that channels use.

use async_trait::async_trait;
use secrecy::SecretString;
use skillhost_control::UserMessage;
use skillhost_home::ChannelSettings;
use skillhost_payload::{CallError, ChannelInfo, ChannelPeer, OutgoingMessage, SendOutcome};
use skillhost_questions::ReviewLedger;

/// The kernel around its channels.
#[async_trait]
pub trait ChannelEnvironment: Send + Sync {
    /// Lists the loaded channels.
    fn list_channels(&self) -> Vec<String>;

    /// Returns the settings of a channel.
    fn settings(&self, channel: &str) -> ChannelSettings;

    /// Returns the secrets of the home, which are never received and never sent.
    fn secrets(&self) -> Vec<SecretString>;

    /// Returns the ledger that decides about proposals.
    fn reviews(&self) -> &dyn ReviewLedger;

    /// Fetches the properties of a channel.
    async fn fetch_info(&self, channel: &str) -> Result<ChannelInfo, CallError>;

    /// Sends a message, or replaces one.
    async fn send_message(
        &self,
        channel: &str,
        message: &OutgoingMessage,
    ) -> Result<SendOutcome, CallError>;

    /// Fetches the channel's hint about writing to a person.
    async fn fetch_hint(
        &self,
        channel: &str,
        peer: &ChannelPeer,
    ) -> Result<Option<String>, CallError>;

    /// Creates a thread; returns its id.
    async fn create_thread(&self, agent: &str) -> Result<String, CallError>;

    /// Returns whether a thread exists: its user may have deleted it.
    async fn has_thread(&self, thread: &str) -> bool;

    /// Stores a user message, once per id; it is durable when this returns.
    ///
    /// # Errors
    /// `NotFound` and `Failed` for an agent that cannot answer; `Io` and `Unavailable` if it could not
    /// be stored.
    async fn store_message(&self, message: UserMessage) -> Result<(), CallError>;

    /// Finds a user message that was stored before.
    async fn find_message(&self, id: &str) -> Result<Option<FoundMessage>, CallError>;
}

/// A stored user message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundMessage {
    /// The message; its origin is set only if the kernel has set it.
    pub message: UserMessage,
    /// Whether the kernel wrote it, to give an agent a turn after the end of a task.
    pub is_wake: bool,
}
