//! How a run hands a task to another agent.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use skillhost_contract::payload::{CallContext, CallOrigin, ErrorKind, ToolOutput};
use skillhost_manifest::ExtensionId;
use tokio_util::sync::CancellationToken;

use super::RunError;
use super::begin::{ParentRun, RunSpec};
use super::lineage::{DEPTH, DelegationError};
use super::session::RunSession;
use crate::channel::RunEvent;
use crate::error::CallError;
use crate::kernel::Kernel;
use crate::thread::Thread;
use crate::transcript::RunEntry;

impl Kernel {
    /// Lets another agent work on a task within the budget of the run that hands it on, and with its
    /// channel. What goes wrong is the answer. Boxed: a delegated run may delegate.
    pub(super) fn delegate<'a>(
        &'a self,
        session: Arc<RunSession>,
        context: &'a CallContext,
        agent_id: &'a str,
        task: String,
    ) -> BoxFuture<'a, ToolOutput> {
        async move {
            match self.run_delegate(session, context, agent_id, task).await {
                Ok(text) => ToolOutput { text, structured: None, is_error: false, skill: None },
                Err(error) => {
                    let CallError { message, hint, .. } = error;
                    let hint = if hint.is_empty() { hint } else { format!("\nhint: {hint}") };
                    let text = format!("`{agent_id}` did not do it: {message}{hint}");
                    ToolOutput { text, structured: None, is_error: true, skill: None }
                }
            }
        }
        .boxed()
    }

    async fn run_delegate(
        &self,
        session: Arc<RunSession>,
        context: &CallContext,
        agent_id: &str,
        task: String,
    ) -> Result<String, CallError> {
        // Before anything is waited for: of two tasks for one agent the first is the one it gets.
        let known = self.find_agent(agent_id)?;
        let id = &known.manifest.id;
        let lineage =
            session.delegation_chain.delegate_to(id).map_err(|why| to_call_error(id, &why))?;
        let agent = self.refresh_agent(agent_id).await?;
        let reporter = &session.reporter;
        reporter.emit(&RunEvent::Delegated {
            agent_id: reporter.agent_id(),
            to: id.to_string(),
            task: task.clone(),
        });
        let mut thread = Thread::in_memory(id.as_str());
        let beginning = RunSpec {
            agent: Arc::clone(&agent),
            model: None,
            prompt: task,
            // Whoever gives the run above up drops this one with it.
            cancel: CancellationToken::new(),
            channel: reporter.channel.clone(),
            origin: CallOrigin::Agent,
            parent: ParentRun::Run(Arc::clone(&session), lineage),
            limit_ms: context.deadline_ms,
            message_id: None,
            correlation_id: context.correlation_id.clone(),
        };
        let outcome =
            self.start_run(&mut thread, beginning).await.map_err(|error| match error {
                RunError::Agent(error) => CallError::from(error),
                other => CallError::from(other),
            })?;
        let (to, run_id) = (id.to_string(), outcome.run_id);
        reporter.record(&RunEntry::Delegated { to, run_id });
        Ok(outcome.text)
    }
}

/// Why an agent is not given a task, for the model that wanted it.
pub(super) fn to_call_error(agent: &ExtensionId, why: &DelegationError) -> CallError {
    let (kind, message, hint) = match why {
        DelegationError::Asked => (
            ErrorKind::Denied,
            format!("the task came from `{agent}`, and cannot go back to it"),
            "answer with what you have",
        ),
        DelegationError::Busy => (
            ErrorKind::Unavailable,
            format!("`{agent}` works on another task of this conversation"),
            "hand it the task when it has answered",
        ),
        DelegationError::TooDeep => (
            ErrorKind::Denied,
            format!("the task was handed on {DEPTH} times already"),
            "do it yourself, or answer with what you have",
        ),
    };
    CallError::new(kind, message).with_hint(hint)
}
