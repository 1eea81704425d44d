//! The `scheduler` interface: runs tasks that are due.

use std::sync::Arc;

use async_trait::async_trait;
use skillhost_payload::{ErrorKind, RunTaskRequest, scheduler_interface};

use crate::codec::{from_bytes, to_bytes};
use crate::error::{ExtensionError, Result};
use crate::interface::Interface;
use crate::provider::SchedulerProvider;

/// The `scheduler` interface of a [`SchedulerProvider`].
pub(crate) struct SchedulerInterface<T>(pub(crate) Arc<T>);

#[async_trait]
impl<T: SchedulerProvider> Interface for SchedulerInterface<T> {
    fn name(&self) -> &'static str {
        scheduler_interface::NAME
    }

    async fn call(&self, method: &str, payload: &[u8]) -> Result<Vec<u8>> {
        match method {
            scheduler_interface::RUN => {
                let RunTaskRequest { context, task } = from_bytes(payload)?;
                to_bytes(&self.0.run_task(&context, &task).await?)
            }
            other => {
                Err(ExtensionError::new(ErrorKind::Protocol, format!("unknown method `{other}`")))
            }
        }
    }
}
