//! A thread executed by a kernel in this process, for `ask` and `chat`.

use async_trait::async_trait;
use serde_json::value::RawValue;
use skillhost_agents::{RunError, RunRequest};
use skillhost_chat::{
    ChatSessionArgs, ChatWork, KernelConnection, OpenedKernel, ThreadOverview, TurnTerminal,
    check_agent, check_approved, create_thread, open_thread,
};
use skillhost_control::{ControlRequest, DEFAULT_AGENT, LoadReport};
use skillhost_conversation::{RunOutcome, Thread, ThreadStore};
use skillhost_kernel::Kernel;
use skillhost_kernel::control::execute_request;
use skillhost_payload::SkillRef;
use skillhost_terminal::{CliContext, CliError, CommandResult};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::failures::{kernel_error, run_error};
use crate::kernel_session::with_kernel;

/// Boots a kernel in this process, opens the thread and runs the work with them.
pub(crate) fn with_own_kernel<'a>(
    session: &'a CliContext,
    args: &'a ChatSessionArgs,
    work: ChatWork<'a>,
) -> CommandResult {
    with_kernel(session, move |kernel| {
        Box::pin(async move {
            // From here on Ctrl-C cancels a turn and does not end the process.
            let interrupted = signal(SignalKind::interrupt())?;
            let own = InProcessKernel::open(session, kernel.clone(), args).await?;
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
        args: &ChatSessionArgs,
    ) -> Result<Self, CliError> {
        check_approved(&args.approve, &|request| {
            Box::pin(async { execute_request(&kernel, request).await.map_err(kernel_error) })
        })
        .await?;
        let threads = ThreadStore::new(kernel.home());
        let Some(id) = &args.thread else {
            let agent = args.agent.as_deref().unwrap_or(DEFAULT_AGENT);
            // A thread must not be created for an unknown agent.
            let agent = kernel.agents().refresh_agent(agent).await.map_err(kernel_error)?;
            let thread = create_thread(threads, agent.manifest.id.as_str()).await?;
            return Ok(Self { kernel, thread });
        };
        let thread = open_thread(threads, id).await?;
        check_agent(id, thread.agent(), args)?;
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
            agent: Some(self.thread.agent().to_owned()),
            model,
            prompt: text,
            cancel: cancel.clone(),
            message_id: None,
            correlation_id: None,
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
        self.thread = create_thread(threads, agent.manifest.id.as_str()).await?;
        Ok(())
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
