//! A thread, its user, and the agent's next turn: the shared part of `ask` and `chat`.
//!
//! If a kernel runs for the home, it executes the turns and this process is only its terminal;
//! otherwise this process boots a kernel of its own.

mod approval_prompt;
mod approved;
mod connection;
mod in_process;
mod secret;
mod socket;
mod terminal_channel;

use std::sync::Arc;

use futures::future::LocalBoxFuture;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use skillhost_control::{ControlRequest, LoadReport, socket_path};
use skillhost_conversation::RunOutcome;
use skillhost_payload::SkillRef;
use skillhost_terminal::{CliContext, CliError, DIM, display_safe, parse_answer};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::ChatSessionArgs;
use crate::kernel_session::with_kernel;
pub(super) use approval_prompt::format_details;
pub(super) use connection::ThreadOverview;
use connection::{KernelConnection, TurnTerminal};
use in_process::InProcessKernel;
use socket::SocketKernel;
use terminal_channel::TerminalChannel;

/// A chat in one thread.
pub(super) struct ChatSession<'a> {
    pub(super) session: &'a CliContext,
    pub(super) person: Arc<TerminalChannel>,
    pub(super) interrupted: Signal,
    model: Option<String>,
    kernel: Box<dyn KernelConnection + 'a>,
}

/// Opens or creates the thread and runs `work` with it.
pub(super) fn with_chat_session<'a, T>(
    session: &'a CliContext,
    args: &'a ChatSessionArgs,
    work: impl FnOnce(ChatSession<'a>) -> LocalBoxFuture<'a, Result<T, CliError>> + 'a,
) -> Result<T, CliError> {
    let home = session.trusted_home()?;
    match (socket::fetch_load_report(session, &home)?, socket_path(&home, &session.environment)) {
        (Some(report), Some(socket)) => session.block_on(Box::pin(async move {
            let interrupted = signal(SignalKind::interrupt())?;
            let kernel = SocketKernel::open(session, socket, &home, args).await?;
            let talk = ChatSession::new(session, args, interrupted, Box::new(kernel));
            talk.print_rejections(&report);
            work(talk).await
        }))?,
        _ => with_kernel(session, move |kernel| {
            Box::pin(async move {
                // From here on Ctrl-C cancels a turn and does not end the process.
                let interrupted = signal(SignalKind::interrupt())?;
                let own = InProcessKernel::open(session, kernel.clone(), args).await?;
                let talk = ChatSession::new(session, args, interrupted, Box::new(own));
                talk.print_rejections(&kernel.report());
                kernel.start_services().await;
                work(talk).await
            })
        }),
    }
}

impl<'a> ChatSession<'a> {
    fn new(
        session: &'a CliContext,
        args: &ChatSessionArgs,
        interrupted: Signal,
        kernel: Box<dyn KernelConnection + 'a>,
    ) -> Self {
        let person = TerminalChannel::new(session.output, kernel.agent(), &args.approve);
        Self { session, person: Arc::new(person), interrupted, model: args.model.clone(), kernel }
    }

    fn print_rejections(&self, report: &LoadReport) {
        for rejected in &report.rejected {
            let (id, reason) = (&rejected.id, &rejected.reason);
            self.session.output.print_note(format!("{id} is not loaded: {reason}"));
        }
    }

    /// Returns the thread's id.
    pub(super) fn thread(&self) -> &str {
        self.kernel.thread()
    }

    /// Returns the thread's agent.
    pub(super) fn agent(&self) -> &str {
        self.kernel.agent()
    }

    /// Returns a summary of the thread.
    pub(super) fn thread_overview(&self) -> Result<ThreadOverview, CliError> {
        self.kernel.thread_overview()
    }

    /// Runs one turn of the agent. Ctrl-C cancels the turn; a second one does not wait for that.
    pub(super) async fn send_message(&mut self, text: String) -> Result<RunOutcome, CliError> {
        let terminal = TurnTerminal { person: &self.person, interrupted: &mut self.interrupted };
        let result = self.kernel.run_turn(text, self.model.clone(), terminal).await;
        self.end_of_turn(result)
    }

    /// Waits for the pending reply to earlier messages in the thread; `None` if there is none.
    pub(super) async fn wait_for_pending_reply(&mut self) -> Result<Option<RunOutcome>, CliError> {
        let terminal = TurnTerminal { person: &self.person, interrupted: &mut self.interrupted };
        match self.kernel.wait_for_pending_reply(terminal).await.transpose() {
            Some(result) => self.end_of_turn(result).map(Some),
            None => Ok(None),
        }
    }

    fn end_of_turn(&self, result: Result<RunOutcome, CliError>) -> Result<RunOutcome, CliError> {
        self.person.end_of_turn(result.as_ref().ok())?;
        let outcome = result?;
        self.summary(&outcome);
        Ok(outcome)
    }

    /// Creates another thread with an agent.
    pub(super) async fn switch_agent(&mut self, agent: &str) -> Result<(), CliError> {
        self.kernel.switch_agent(agent).await?;
        self.person.set_agent(self.kernel.agent());
        Ok(())
    }

    /// Removes the messages of the thread.
    pub(super) async fn reset(&mut self) -> Result<(), CliError> {
        self.kernel.reset().await
    }

    /// Activates a skill in the thread.
    pub(super) async fn activate_skill(&mut self, skill: &str) -> Result<SkillRef, CliError> {
        self.kernel.activate_skill(skill).await
    }

    /// Sends a request to the kernel.
    pub(super) async fn request<T: DeserializeOwned>(
        &self,
        request: ControlRequest,
    ) -> Result<T, CliError> {
        parse_answer(&self.kernel.request(request).await?)
    }

    /// Converts the outcome to the object that `--json` prints.
    pub(super) fn to_json(&self, outcome: &RunOutcome) -> Result<Value, CliError> {
        let mut value = serde_json::to_value(outcome).map_err(std::io::Error::from)?;
        value["thread"] = json!(self.thread());
        value["notes"] = json!(self.person.take_notes());
        Ok(value)
    }

    /// Prints the cost of a turn on one line.
    fn summary(&self, outcome: &RunOutcome) {
        let RunOutcome { model, turns, usage, cost, skills, .. } = outcome;
        let about = if usage.estimated { "approx. " } else { "" };
        let mut parts = vec![
            model.clone(),
            pluralize(u64::from(*turns), "request"),
            format!("{about}{} tokens in, {} out", usage.input, usage.output),
        ];
        parts.extend(cost.map(|cost| format!("cost {cost:.4}")));
        let skills: Vec<_> = skills.iter().map(|skill| skill.skill_id.as_str()).collect();
        if !skills.is_empty() {
            parts.push(format!("skills: {}", skills.join(", ")));
        }
        self.session
            .output
            .print_progress(format!("{DIM}{}{DIM:#}", display_safe(&parts.join(" · "))));
    }
}

/// Formats a count: `1 request`, `2 requests`.
fn pluralize(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}
