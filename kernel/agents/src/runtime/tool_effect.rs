//! The effect of repeating a call of a tool, for callers that keep calls themselves.

use futures::future::BoxFuture;
use skillhost_core::KernelError;
use skillhost_payload::{CallContext, CallEffect, CallOrigin};

use crate::agent_runtime::AgentRuntime;

impl AgentRuntime {
    /// Returns the effect of repeating a call of a tool.
    ///
    /// # Errors
    /// [`KernelError::NotFound`] with similar names.
    pub fn tool_effect<'a>(
        &'a self,
        name: &'a str,
        origin: CallOrigin,
    ) -> BoxFuture<'a, Result<CallEffect, KernelError>> {
        Box::pin(async move {
            let context = CallContext { origin, ..CallContext::default() };
            Ok(self.find_current_tool(&context, name).await?.entry.spec.call_effect())
        })
    }
}
