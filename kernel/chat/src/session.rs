//! A thread, its user, and the agent's next turn: the shared part of `ask` and `chat`.

use std::sync::Arc;

use futures::future::LocalBoxFuture;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use skillhost_control::{ControlRequest, LoadReport, socket_path};
use skillhost_conversation::RunOutcome;
use skillhost_payload::SkillRef;
use skillhost_terminal::{CliContext, CliError, CommandResult, DIM, display_safe, parse_answer};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::arguments::ChatSessionArgs;
use crate::connection::{KernelBoot, KernelConnection, OpenedKernel, ThreadOverview, TurnTerminal};
use crate::socket::{self, SocketKernel};
use crate::terminal_channel::TerminalChannel;

/// A chat in one thread.
pub(crate) struct ChatSession<'a> {
    pub(crate) session: &'a CliContext,
    pub(crate) person: Arc<TerminalChannel>,
    pub(crate) interrupted: Signal,
    model: Option<String>,
    kernel: Box<dyn KernelConnection + 'a>,
}

/// Opens or creates the thread and runs `work` with it.
pub(crate) fn with_chat_session<'a>(
    session: &'a CliContext,
    args: &'a ChatSessionArgs,
    boot: &KernelBoot<'a>,
    work: impl FnOnce(ChatSession<'a>) -> LocalBoxFuture<'a, CommandResult> + 'a,
) -> CommandResult {
    let home = session.trusted_home()?;
    let work = move |opened: OpenedKernel<'a>| {
        let OpenedKernel { connection, report, interrupted } = opened;
        let talk = ChatSession::new(session, args, interrupted, connection);
        talk.print_rejections(&report);
        work(talk)
    };
    match (socket::fetch_load_report(session, &home)?, socket_path(&home, &session.environment)) {
        (Some(report), Some(socket)) => session.block_on(Box::pin(async move {
            let interrupted = signal(SignalKind::interrupt())?;
            let kernel = SocketKernel::open(session, socket, &home, args).await?;
            work(OpenedKernel { connection: Box::new(kernel), report, interrupted }).await
        }))?,
        _ => boot(args, Box::new(work)),
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
    pub(crate) fn thread(&self) -> &str {
        self.kernel.thread()
    }

    /// Returns the thread's agent.
    pub(crate) fn agent(&self) -> &str {
        self.kernel.agent()
    }

    /// Returns a summary of the thread.
    pub(crate) fn thread_overview(&self) -> Result<ThreadOverview, CliError> {
        self.kernel.thread_overview()
    }

    /// Runs one turn of the agent. Ctrl-C cancels the turn; a second one does not wait for that.
    pub(crate) async fn send_message(&mut self, text: String) -> Result<RunOutcome, CliError> {
        let terminal = TurnTerminal { person: &self.person, interrupted: &mut self.interrupted };
        let result = self.kernel.run_turn(text, self.model.clone(), terminal).await;
        self.end_of_turn(result)
    }

    /// Waits for the pending reply to earlier messages in the thread; `None` if there is none.
    pub(crate) async fn wait_for_pending_reply(&mut self) -> Result<Option<RunOutcome>, CliError> {
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
    pub(crate) async fn switch_agent(&mut self, agent: &str) -> Result<(), CliError> {
        self.kernel.switch_agent(agent).await?;
        self.person.set_agent(self.kernel.agent());
        Ok(())
    }

    /// Removes the messages of the thread.
    pub(crate) async fn reset(&mut self) -> Result<(), CliError> {
        self.kernel.reset().await
    }

    /// Activates a skill in the thread.
    pub(crate) async fn activate_skill(&mut self, skill: &str) -> Result<SkillRef, CliError> {
        self.kernel.activate_skill(skill).await
    }

    /// Sends a request to the kernel.
    pub(crate) async fn request<T: DeserializeOwned>(
        &self,
        request: ControlRequest,
    ) -> Result<T, CliError> {
        parse_answer(&self.kernel.request(request).await?)
    }

    /// Converts the outcome to the object that `--json` prints.
    pub(crate) fn to_json(&self, outcome: &RunOutcome) -> Result<Value, CliError> {
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
