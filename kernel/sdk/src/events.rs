//! The `event` interface: delivers events to handlers.

use std::sync::Arc;

use async_trait::async_trait;
use skillhost_payload::{ErrorKind, HandleEventRequest, event_interface};

use crate::codec::{from_bytes, to_bytes};
use crate::error::{ExtensionError, Result};
use crate::interface::Interface;
use crate::provider::EventProvider;

/// The `event` interface of an [`EventProvider`].
pub(crate) struct EventInterface<T>(pub(crate) Arc<T>);

#[async_trait]
impl<T: EventProvider> Interface for EventInterface<T> {
    fn name(&self) -> &'static str {
        event_interface::NAME
    }

    async fn call(&self, method: &str, payload: &[u8]) -> Result<Vec<u8>> {
        match method {
            event_interface::HANDLE => {
                let HandleEventRequest { context, event, .. } = from_bytes(payload)?;
                to_bytes(&self.0.handle(&context, &event).await?)
            }
            other => {
                Err(ExtensionError::new(ErrorKind::Protocol, format!("unknown method `{other}`")))
            }
        }
    }
}
