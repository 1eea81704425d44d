//! A thread executed by a kernel in this process, for `ask` and `chat`.

use async_trait::async_trait;
use serde_json::value::RawValue;
use skillhost_agents::{RunError, RunRequest};
use skillhost_chat::{
    ChatWork, KernelConnection, OpenedKernel, StopSignals, ThreadChoice, ThreadOverview,
    TurnTerminal, check_agent, check_approved, create_thread, discard_if_unused, open_thread,
};
use skillhost_control::{ControlRequest, DEFAULT_AGENT, LoadReport};
use skillhost_conversation::{RunOutcome, Thread, ThreadStore};
use skillhost_kernel::Kernel;
use skillhost_kernel::control::execute_request;
use skillhost_payload::SkillRef;
use skillhost_terminal::{CliContext, CliError, CommandResult};
use tokio_util::sync::CancellationToken;

use crate::failures::{kernel_error, run_error};
use crate::kernel_session::with_kernel;

/// Boots a kernel in this process, opens the thread and runs the work with them.
pub(crate) fn with_own_kernel<'a>(
    session: &'a CliContext,
    choice: ThreadChoice,
    work: ChatWork<'a>,
) -> CommandResult {
    with_kernel(session, move |kernel| {
        Box::pin(async move {
            // From here on Ctrl-C cancels a turn and does not end the process.
            let interrupted = StopSignals::listen()?;
            let own = InProcessKernel::open(session, kernel.clone(), &choice).await?;
            kernel.start_services().await;
            let report = LoadReport::clone(&kernel.report());
            work(OpenedKernel { connection: Box::new(own), report, interrupted }).await
        })
    })
}

/// A kernel, and a thread locked against other processes.
pub(crate) struct InProcessKernel {
    kernel: Kernel,
    thread: Thread,
}

impl InProcessKernel {
    /// Opens or creates the thread.
    pub(crate) async fn open(
        session: &CliContext,
        kernel: Kernel,
        choice: &ThreadChoice,
    ) -> Result<Self, CliError> {
        check_approved(&choice.approve, &|request| {
            Box::pin(async { execute_request(&kernel, request).await.map_err(kernel_error) })
        })
        .await?;
        let threads = ThreadStore::new(kernel.home());
        let Some(id) = &choice.thread else {
            let agent = choice.agent.as_deref().unwrap_or(DEFAULT_AGENT);
            // A thread must not be created for an unknown agent.
            let agent = kernel.agents().refresh_agent(agent).await.map_err(kernel_error)?;
            let thread = create_thread(threads, agent.manifest.id.as_str()).await?;
            return Ok(Self { kernel, thread });
        };
        let thread = open_thread(threads, id).await?;
        check_agent(id, thread.agent(), choice)?;
        if let Some(note) = thread.recovery_note() {
            session.output.print_note(format!("thread {id}: {note}"));
        }
        Ok(Self { kernel, thread })
    }
}

#[async_trait(?Send)]
impl KernelConnection for InProcessKernel {
    fn thread(&self) -> &str {
        self.thread.id()
    }

    fn agent(&self) -> &str {
        self.thread.agent()
    }

    fn thread_overview(&self) -> Result<ThreadOverview, CliError> {
        Ok(ThreadOverview {
            messages: self.thread.messages().len(),
            skills: self.thread.skills().to_vec(),
        })
    }

    async fn run_turn(
        &mut self,
        text: String,
        model: Option<String>,
        mut terminal: TurnTerminal<'_>,
    ) -> Result<RunOutcome, CliError> {
        let cancel = CancellationToken::new();
        let request = RunRequest {
            model,
            prompt: text,
            cancel: cancel.clone(),
            workspaces: terminal.workspaces().to_vec(),
            ..RunRequest::default()
        };
        let channel = terminal.channel();
        let mut run = Box::pin(self.kernel.agents().run_agent(&mut self.thread, request, channel));
        let result = loop {
            tokio::select! {
                biased;
                result = &mut run => break result,
                () = terminal.wait_for_interrupt() => {
                    if cancel.is_cancelled() {
                        break Err(RunError::Cancelled);
                    }
                    cancel.cancel();
                }
            }
        };
        result.map_err(run_error)
    }

    /// A thread that is locked has no pending reply.
    async fn wait_for_pending_reply(
        &mut self,
        _terminal: TurnTerminal<'_>,
    ) -> Result<Option<RunOutcome>, CliError> {
        Ok(None)
    }

    async fn switch_agent(&mut self, agent: &str) -> Result<(), CliError> {
        let agent = self.kernel.agents().refresh_agent(agent).await.map_err(kernel_error)?;
        let threads = ThreadStore::new(self.kernel.home());
        let thread = create_thread(threads, agent.manifest.id.as_str()).await?;
        discard_if_unused(std::mem::replace(&mut self.thread, thread)).await?;
        Ok(())
    }

    async fn switch_thread(&mut self, id: &str) -> Result<(), CliError> {
        // Opened before the present one is closed, so that an error leaves the chat as it was.
        let thread = open_thread(ThreadStore::new(self.kernel.home()), id).await?;
        discard_if_unused(std::mem::replace(&mut self.thread, thread)).await?;
        Ok(())
    }

    async fn close_thread(&mut self) -> Result<bool, CliError> {
        // The lock of an open thread lasts until it is closed.
        let placeholder = Thread::in_memory(self.thread.agent());
        discard_if_unused(std::mem::replace(&mut self.thread, placeholder)).await
    }

    async fn compact(&mut self, model: Option<String>) -> Result<RunOutcome, CliError> {
        self.kernel.agents().compact_thread(&mut self.thread, model).await.map_err(run_error)
    }

    async fn reset(&mut self) -> Result<(), CliError> {
        Ok(self.thread.reset().await?)
    }

    async fn activate_skill(&mut self, skill: &str) -> Result<SkillRef, CliError> {
        self.kernel.agents().activate_skill(&mut self.thread, skill).await.map_err(run_error)
    }

    async fn request(&self, request: ControlRequest) -> Result<Box<RawValue>, CliError> {
        execute_request(&self.kernel, request).await.map_err(kernel_error)
    }
}
