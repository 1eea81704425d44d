//! The kernel's side of the channel.

use skillhost_sdk::prelude::*;
use skillhost_sdk::{InboundOutcome, IncomingMessage};

/// The services of the kernel that the channel uses; tests substitute a kernel of their own.
#[async_trait]
pub(crate) trait HookKernel: Send + Sync + 'static {
    /// Passes a message on; without an error, it is durable or refused.
    async fn receive_message(&self, message: &IncomingMessage) -> Result<InboundOutcome>;

    /// Checks that this kernel receives messages: one process of a home listens.
    async fn require_receiver(&self) -> Result<()>;

    /// Reads a secret; `None` if it is not set.
    async fn read_secret(&self, name: &str) -> Result<Option<String>>;
}

#[async_trait]
impl HookKernel for ExtensionContext {
    async fn receive_message(&self, message: &IncomingMessage) -> Result<InboundOutcome> {
        Self::receive_message(self, message).await
    }

    async fn require_receiver(&self) -> Result<()> {
        self.load_channel_cursor().await.map(drop)
    }

    async fn read_secret(&self, name: &str) -> Result<Option<String>> {
        Ok(self.secret(name).await?.map(|secret| secret.expose().to_owned()))
    }
}
