//! The delegation of a task from a run to another agent.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use skillhost_conversation::{RunEntry, RunEvent, Thread};
use skillhost_payload::{CallContext, CallError, CallOrigin, ToolOutput};
use tokio_util::sync::CancellationToken;

use super::lineage::{check_depth, to_call_error};
use super::run_start::{ParentRun, RunInput, RunSpec};
use super::session::RunSession;
use super::{DelegationState, RunControl, RunError};
use crate::agent_runtime::AgentRuntime;

impl AgentRuntime {
    /// Runs another agent on a task within the budget of the delegating run, and with its channel.
    /// Errors are returned as a tool result. Boxed, as a delegated run may delegate.
    pub(super) fn delegate<'a>(
        &'a self,
        session: Arc<RunSession>,
        context: &'a CallContext,
        agent_id: &'a str,
        task: String,
    ) -> BoxFuture<'a, ToolOutput> {
        async move {
            let replied = match session.subtask_control(context).cloned() {
                Some(control) => self.submit_delegate(&*control, context, agent_id, task).await,
                None => self.run_delegate(session, context, agent_id, task).await,
            };
            match replied {
                Ok(text) => ToolOutput { text, ..ToolOutput::default() },
                Err(error) => {
                    let CallError { message, hint, .. } = error;
                    let hint = if hint.is_empty() { hint } else { format!("\nhint: {hint}") };
                    let text = format!("`{agent_id}` failed: {message}{hint}");
                    ToolOutput { text, is_error: true, ..ToolOutput::default() }
                }
            }
        }
        .boxed()
    }

    /// Delegates a task as a subtask of the task that the run works on, and waits for it parked.
    async fn submit_delegate(
        &self,
        control: &dyn RunControl,
        context: &CallContext,
        agent_id: &str,
        task: String,
    ) -> Result<String, CallError> {
        check_depth(context)?;
        let agent = self.refresh_agent(agent_id).await?;
        match control.delegate(context, agent.manifest.id.as_str(), task).await? {
            DelegationState::Ended(replied) => replied,
            DelegationState::Waiting => Err(self.park_call(context)),
        }
    }

    async fn run_delegate(
        &self,
        session: Arc<RunSession>,
        context: &CallContext,
        agent_id: &str,
        task: String,
    ) -> Result<String, CallError> {
        check_depth(context)?;
        // Before the first await: of two tasks for one agent, the first gets it.
        let known = self.find_agent(agent_id)?;
        let id = &known.manifest.id;
        let chain =
            session.delegation_chain.delegate_to(id).map_err(|why| to_call_error(id, &why))?;
        let agent = self.refresh_agent(agent_id).await?;
        let reporter = &session.reporter;
        // Only after all checks: clients show a delegation that has really started.
        reporter.emit(&RunEvent::Delegated {
            agent_id: reporter.agent_id(),
            to: id.to_string(),
            task: task.clone(),
        });
        let mut thread = Thread::in_memory(id.as_str());
        let spec = RunSpec {
            agent: Arc::clone(&agent),
            model: None,
            prompt: RunInput::Prompt(task),
            // Cancelling the parent run drops this one with it.
            cancel: CancellationToken::new(),
            channel: reporter.channel.clone(),
            origin: CallOrigin::Agent,
            parent: ParentRun::Run(Arc::clone(&session), chain),
            call_chain: context.call_chain.clone(),
            limit_ms: context.deadline_ms,
            message_id: None,
            correlation_id: context.correlation_id.clone(),
            workspaces: Vec::new(),
            channel_block: None,
            is_confined: false,
        };
        // The delegated run counts its own time, for this run too.
        let _waiting = session.budget.start_wait(context.call_id);
        let outcome =
            // An agent's own error keeps its hint for the operator.
            self.start_run(&mut thread, spec).await.map_err(|error| match error {
                RunError::Agent(error) => CallError::from(error),
                other => CallError::from(other),
            })?;
        let (to, run_id) = (id.to_string(), outcome.run_id);
        reporter.record(&RunEntry::Delegated { to, run_id });
        Ok(outcome.text)
    }
}
