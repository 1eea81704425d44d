//! The `channel` interface, and the kernel's services for channels.

use std::sync::Arc;

use async_trait::async_trait;
use skillhost_payload::{
    ButtonOutcome, ChannelCursor, ChannelPeer, ErrorKind, InboundOutcome, IncomingMessage,
    OutgoingMessage, PressedButton, channel_interface, host_method,
};

use crate::codec::{from_bytes, to_bytes};
use crate::context::ExtensionContext;
use crate::error::{ExtensionError, Result};
use crate::interface::Interface;
use crate::provider::ChannelProvider;

/// The `channel` interface of a [`ChannelProvider`].
pub(crate) struct ChannelInterface<T>(pub(crate) Arc<T>);

#[async_trait]
impl<T: ChannelProvider> Interface for ChannelInterface<T> {
    fn name(&self) -> &'static str {
        channel_interface::NAME
    }

    async fn call(&self, method: &str, payload: &[u8]) -> Result<Vec<u8>> {
        match method {
            channel_interface::INFO => to_bytes(&self.0.info()),
            channel_interface::SEND => {
                let message: OutgoingMessage = from_bytes(payload)?;
                to_bytes(&self.0.send(&message).await?)
            }
            channel_interface::HINT => {
                let peer: ChannelPeer = from_bytes(payload)?;
                to_bytes(&self.0.hint(&peer).await?)
            }
            other => {
                Err(ExtensionError::new(ErrorKind::Protocol, format!("unknown method `{other}`")))
            }
        }
    }
}

/// The services for extensions that declare `channel`.
impl ExtensionContext {
    /// Passes a message of a person to the kernel. When this returns without an error, the platform
    /// may forget the message: it is durable, was received before, or is not processed.
    ///
    /// A message that is received again, also after a crash, is a duplicate by its conversation and
    /// external id.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] and [`ErrorKind::Unavailable`] if it could not be stored: pass it again.
    /// [`ErrorKind::InvalidArgument`] for an id that is empty or has more than 256 bytes.
    pub async fn receive_message(&self, message: &IncomingMessage) -> Result<InboundOutcome> {
        from_bytes(&self.link().call(host_method::RECEIVE_MESSAGE, to_bytes(message)?).await?)
    }

    /// Passes a pressed button to the kernel, and returns a line for the person who pressed it.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] and [`ErrorKind::Unavailable`] if nothing was decided.
    pub async fn press_button(&self, button: &PressedButton) -> Result<ButtonOutcome> {
        from_bytes(&self.link().call(host_method::PRESS_BUTTON, to_bytes(button)?).await?)
    }

    /// Loads the stored position in the platform's sequence of messages; `None` before the first.
    ///
    /// Call it before the platform is asked for messages: of several kernels of a home, one receives.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] in a kernel that receives no messages, or not yet: try again after a
    /// pause. [`ErrorKind::Io`].
    pub async fn load_channel_cursor(&self) -> Result<Option<String>> {
        let reply = self.link().call(host_method::LOAD_CHANNEL_CURSOR, Vec::new()).await?;
        Ok(from_bytes::<ChannelCursor>(&reply)?.value)
    }

    /// Stores the position in the platform's sequence of messages. Store it only after each message
    /// before it was received: a message behind the position is lost if the kernel ends.
    ///
    /// # Errors
    /// [`ErrorKind::Io`], [`ErrorKind::Unavailable`], [`ErrorKind::TooLarge`] above 4 KiB.
    pub async fn store_channel_cursor(&self, value: &str) -> Result<()> {
        let cursor = ChannelCursor { value: Some(value.to_owned()) };
        self.link().call(host_method::STORE_CHANNEL_CURSOR, to_bytes(&cursor)?).await.map(drop)
    }
}
