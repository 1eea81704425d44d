//! A thread executed by a kernel in this process.

use std::sync::Arc;

use skillhost_kernel::{
    DEFAULT_AGENT, Kernel, RunError, RunOutcome, RunRequest, Thread, ThreadStore,
};
use tokio::signal::unix::Signal;
use tokio_util::sync::CancellationToken;

use super::{TerminalChannel, check_agent};
use crate::cli::ChatSessionArgs;
use crate::error::CliError;
use crate::session::CliContext;

/// A kernel, and a thread locked against other processes.
pub(super) struct InProcessKernel<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) thread: Thread,
}

impl<'a> InProcessKernel<'a> {
    /// Opens or creates the thread.
    pub(super) async fn open(
        session: &CliContext,
        kernel: &'a Kernel,
        args: &ChatSessionArgs,
    ) -> Result<Self, CliError> {
        let threads = ThreadStore::new(kernel.home());
        let Some(id) = &args.thread else {
            let agent = args.agent.as_deref().unwrap_or(DEFAULT_AGENT);
            // A thread must not be created for an unknown agent.
            let agent = kernel.refresh_agent(agent).await?.manifest.id.to_string();
            return Ok(Self { kernel, thread: threads.create(&agent)? });
        };
        let thread = threads.open(id)?;
        check_agent(id, thread.agent(), args)?;
        if let Some(note) = thread.recovery_note() {
            session.output.print_note(format!("thread {id}: {note}"));
        }
        Ok(Self { kernel, thread })
    }

    /// Runs one turn of the agent.
    pub(super) async fn run_turn(
        &mut self,
        prompt: String,
        model: Option<String>,
        person: &Arc<TerminalChannel>,
        interrupted: &mut Signal,
    ) -> Result<RunOutcome, CliError> {
        let cancel = CancellationToken::new();
        let request = RunRequest {
            agent: Some(self.thread.agent().to_owned()),
            model,
            prompt,
            cancel: cancel.clone(),
            message_id: None,
            correlation_id: None,
        };
        let channel = Arc::clone(person);
        let mut run = Box::pin(self.kernel.run_agent(&mut self.thread, request, channel));
        let result = loop {
            tokio::select! {
                biased;
                result = &mut run => break result,
                _ = interrupted.recv() => {
                    if cancel.is_cancelled() {
                        break Err(RunError::Cancelled);
                    }
                    cancel.cancel();
                }
            }
        };
        Ok(result?)
    }

    /// Creates another thread with an agent.
    pub(super) async fn switch_agent(&mut self, agent: &str) -> Result<(), CliError> {
        let agent = self.kernel.refresh_agent(agent).await?.manifest.id.to_string();
        self.thread = ThreadStore::new(self.kernel.home()).create(&agent)?;
        Ok(())
    }
}
