//! The kernel's side of the channel.

use std::time::Duration;

use skillhost_files::{DirectoryLock, LockError};
use skillhost_sdk::prelude::*;
use skillhost_sdk::{InboundOutcome, IncomingMessage};

/// The services of the kernel that the channel uses; tests substitute a kernel of their own.
#[async_trait]
pub(crate) trait HookKernel: Send + Sync + 'static {
    /// Passes a message on; without an error, it is durable or refused.
    async fn receive_message(&self, message: &IncomingMessage) -> Result<InboundOutcome>;

    /// Locks the receiver of messages: one process of a home listens.
    async fn lock_receiver(&self) -> Result<Option<DirectoryLock>>;

    /// Reads a secret; `None` if it is not set.
    async fn read_secret(&self, name: &str) -> Result<Option<String>>;
}

#[async_trait]
impl HookKernel for ExtensionContext {
    async fn receive_message(&self, message: &IncomingMessage) -> Result<InboundOutcome> {
        Self::receive_message(self, message).await
    }

    async fn lock_receiver(&self) -> Result<Option<DirectoryLock>> {
        // Without it, the kernel is not ready for messages, or does not receive any.
        self.load_channel_cursor().await?;
        let directory = self.data_dir()?;
        let locked = tokio::task::spawn_blocking(move || {
            DirectoryLock::acquire(&directory, Duration::ZERO).inspect(|lock| {
                // The lock protects no files, so a killed process leaves no file to recover.
                lock.clear_stale_holders();
            })
        });
        match locked.await.map_err(|error| ExtensionError::failed(error.to_string()))? {
            Ok(lock) => Ok(Some(lock)),
            Err(error @ LockError::Held { .. }) => {
                Err(ExtensionError::new(ErrorKind::Unavailable, error.to_string()))
            }
            Err(error) => Err(ExtensionError::new(ErrorKind::Io, error.to_string())),
        }
    }

    async fn read_secret(&self, name: &str) -> Result<Option<String>> {
        Ok(self.secret(name).await?.map(|secret| secret.expose().to_owned()))
    }
}
