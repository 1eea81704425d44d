//! The `task` interface: executes background tasks.

use std::sync::Arc;

use async_trait::async_trait;
use skillhost_payload::{
    ErrorKind, PrepareTaskRequest, PreparedTask, TaskRunRequest, task_interface,
};

use crate::args::ToolArgs;
use crate::codec::{from_bytes, to_bytes};
use crate::error::{ExtensionError, Result};
use crate::interface::Interface;
use crate::link::HostLink;
use crate::provider::TaskProvider;
use crate::task::TaskRun;

/// The `task` interface of a [`TaskProvider`].
pub(crate) struct TaskInterface<T> {
    pub(crate) provider: Arc<T>,
    pub(crate) link: HostLink,
}

#[async_trait]
impl<T: TaskProvider> Interface for TaskInterface<T> {
    fn name(&self) -> &'static str {
        task_interface::NAME
    }

    async fn call(&self, method: &str, payload: &[u8]) -> Result<Vec<u8>> {
        match method {
            task_interface::KINDS => to_bytes(&self.provider.kinds()),
            task_interface::PREPARE => {
                let PrepareTaskRequest { context, kind, input } = from_bytes(payload)?;
                let args = ToolArgs::new(input.get());
                let title = self.provider.prepare(&context, &kind, args).await?;
                to_bytes(&PreparedTask { title })
            }
            task_interface::RUN => {
                let request: TaskRunRequest = from_bytes(payload)?;
                let context = request.context.clone();
                let run = TaskRun::new(request, self.link.clone());
                let result = self.provider.run(&context, &run).await;
                to_bytes(&run.into_reply(result)?)
            }
            other => {
                Err(ExtensionError::new(ErrorKind::Protocol, format!("unknown method `{other}`")))
            }
        }
    }
}
