//! A thread, its user, and the agent's next turn: the shared part of `ask` and `chat`.

use std::sync::Arc;

use futures::future::LocalBoxFuture;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use skillhost_control::{ControlRequest, LoadReport, socket_path};
use skillhost_conversation::{RunOutcome, ThreadStore};
use skillhost_home::Home;
use skillhost_payload::{OperatorCommand, SkillRef, Workspace};
use skillhost_terminal::{
    CliContext, CliError, CommandResult, DIM, MarkdownLayout, display_safe, exit, parse_answer,
};
use skillhost_workspaces::resolve_workspaces;

use crate::arguments::ChatSessionArgs;
use crate::connection::{
    KernelBoot, KernelConnection, OpenedKernel, ThreadChoice, ThreadOverview, TurnTerminal,
};
use crate::pluralize::pluralize;
use crate::recap::format_recap;
use crate::screen::wrap_for_stderr;
use crate::socket::{self, SocketKernel};
use crate::stop_signals::StopSignals;
use crate::terminal_channel::TerminalChannel;
use crate::usage_total::UsageTotal;
use crate::workspace::{offer_working_directory, resolve_workspace_args};

/// The width of a recap where the terminal does not report its own, in columns.
const RECAP_WIDTH: usize = 80;

/// A chat in one thread.
pub(crate) struct ChatSession<'a> {
    pub(crate) session: &'a CliContext,
    pub(crate) person: Arc<TerminalChannel>,
    pub(crate) interrupted: StopSignals,
    /// The model of the next turns; `None` for that of the settings or of the agent.
    pub(crate) model: Option<String>,
    pub(crate) usage: UsageTotal,
    pub(crate) threads: ThreadStore,
    pub(crate) home: Home,
    /// Whether the thread existed before this chat.
    pub(crate) is_resumed: bool,
    workspaces: Vec<Workspace>,
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
    let workspaces = session_workspaces(session, &home, args)?;
    let threads = ThreadStore::new(&home);
    let choice = ThreadChoice {
        thread: choose_thread(&threads, args)?,
        agent: args.agent.clone(),
        approve: args.approve.clone(),
    };
    let is_resumed = choice.thread.is_some();
    let chat_home = home.clone();
    let work = move |opened: OpenedKernel<'a>| {
        let OpenedKernel { connection, report, interrupted } = opened;
        let person = TerminalChannel::new(session.output, connection.agent(), &args.approve);
        let talk = ChatSession {
            session,
            person: Arc::new(person),
            interrupted,
            model: args.model.clone(),
            usage: UsageTotal::default(),
            threads,
            home: chat_home,
            is_resumed,
            workspaces,
            kernel: connection,
        };
        talk.print_rejections(&report);
        talk.print_exceptions();
        work(talk)
    };
    match (socket::fetch_load_report(session, &home)?, socket_path(&home, &session.environment)) {
        (Some(report), Some(socket)) => session.block_on(Box::pin(async move {
            let interrupted = StopSignals::listen()?;
            let kernel = SocketKernel::open(session, socket, &home, &choice).await?;
            work(OpenedKernel { connection: Box::new(kernel), report, interrupted }).await
        }))?,
        _ => boot(choice, Box::new(work)),
    }
}

/// Returns the workspaces of the command line, or the working directory if the user agrees.
fn session_workspaces(
    session: &CliContext,
    home: &Home,
    args: &ChatSessionArgs,
) -> Result<Vec<Workspace>, CliError> {
    let named = resolve_workspace_args(session, home, &args.workspaces)?;
    if !named.is_empty() || args.no_workspace {
        return Ok(named);
    }
    Ok(offer_working_directory(session, home)?.into_iter().collect())
}

impl ChatSession<'_> {
    fn print_rejections(&self, report: &LoadReport) {
        for rejected in &report.rejected {
            let (id, reason) = (&rejected.id, &rejected.reason);
            self.session.output.print_note(format!("{id} is not loaded: {reason}"));
        }
    }

    /// Prints what the operator has exempted from containment.
    fn print_exceptions(&self) {
        // Settings that are not valid have been reported by the kernel.
        let loaded = self.session.settings(&self.home).ok();
        for exception in loaded.iter().flat_map(|it| it.settings.sandbox.describe_exceptions()) {
            self.session.output.print_note(exception);
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

    /// Returns the workspaces of the next turns: those of this chat, and those of the settings.
    pub(crate) fn known_workspaces(&self) -> Vec<Workspace> {
        let mut known = self.workspaces.clone();
        if let Ok(loaded) = self.session.settings(&self.home) {
            known.extend(loaded.settings.workspaces.iter().map(Workspace::from));
        }
        resolve_workspaces(&self.home, &known).workspaces
    }

    /// Returns a summary of the thread.
    pub(crate) fn thread_overview(&self) -> Result<ThreadOverview, CliError> {
        self.kernel.thread_overview()
    }

    /// Runs one turn of the agent. Ctrl-C cancels the turn; a second one does not wait for that.
    pub(crate) async fn send_message(&mut self, text: String) -> Result<RunOutcome, CliError> {
        let _progress = self.person.start_progress();
        let terminal = TurnTerminal {
            person: &self.person,
            workspaces: &self.workspaces,
            interrupted: &mut self.interrupted,
        };
        let result = self.kernel.run_turn(text, self.model.clone(), terminal).await;
        self.end_of_turn(result)
    }

    /// Waits for the pending reply to earlier messages in the thread; `None` if there is none.
    pub(crate) async fn wait_for_pending_reply(&mut self) -> Result<Option<RunOutcome>, CliError> {
        let _progress = self.person.start_progress();
        let terminal = TurnTerminal {
            person: &self.person,
            workspaces: &self.workspaces,
            interrupted: &mut self.interrupted,
        };
        match self.kernel.wait_for_pending_reply(terminal).await.transpose() {
            Some(result) => self.end_of_turn(result).map(Some),
            None => Ok(None),
        }
    }

    fn end_of_turn(
        &mut self,
        result: Result<RunOutcome, CliError>,
    ) -> Result<RunOutcome, CliError> {
        self.person.end_of_turn(result.as_ref().ok())?;
        let outcome = result?;
        self.usage.add(&outcome);
        self.summary(&outcome);
        Ok(outcome)
    }

    /// Creates another thread with an agent.
    pub(crate) async fn switch_agent(&mut self, agent: &str) -> Result<(), CliError> {
        self.kernel.switch_agent(agent).await?;
        self.person.set_agent(self.kernel.agent());
        Ok(())
    }

    /// Continues with another thread, named by its complete id.
    pub(crate) async fn switch_thread(&mut self, id: &str) -> Result<(), CliError> {
        self.kernel.switch_thread(id).await?;
        self.person.set_agent(self.kernel.agent());
        Ok(())
    }

    /// Summarizes the older messages of the thread. Ctrl-C stops waiting for it.
    pub(crate) async fn compact(&mut self) -> Result<RunOutcome, CliError> {
        let _progress = self.person.start_progress();
        let outcome = tokio::select! {
            biased;
            () = self.interrupted.recv() => {
                return Err(CliError::new(exit::INTERRUPTED, "interrupted"));
            }
            outcome = self.kernel.compact(self.model.clone()) => outcome?,
        };
        self.usage.add(&outcome);
        Ok(outcome)
    }

    /// Closes the thread, and removes it if it never held a message; returns whether it was removed.
    pub(crate) async fn close_thread(&mut self) -> Result<bool, CliError> {
        self.kernel.close_thread().await
    }

    /// Prints the last exchange of a thread that is resumed.
    pub(crate) fn print_recap(&self) -> Result<(), CliError> {
        let output = self.session.output;
        if output.json {
            return Ok(());
        }
        let contents = self.threads.read(self.thread())?;
        let width = output.width().unwrap_or(RECAP_WIDTH);
        let recap = format_recap(&contents, MarkdownLayout::new(output.uses_color(), width));
        if !recap.is_empty() {
            output.print_progress(recap.trim_end());
        }
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
        self.session.output.print_progress(format!(
            "{DIM}{}{DIM:#}",
            wrap_for_stderr(&display_safe(&parts.join(" · ")))
        ));
    }
}

/// Returns the complete id of the thread that the arguments name; `None` for a new one.
fn choose_thread(
    threads: &ThreadStore,
    args: &ChatSessionArgs,
) -> Result<Option<String>, CliError> {
    if let Some(named) = &args.thread {
        return Ok(Some(threads.resolve(named)?));
    }
    if !args.resume_last {
        return Ok(None);
    }
    let is_usable = |agent: &str| args.agent.as_deref().is_none_or(|wanted| wanted == agent);
    let mut recent = threads.recent()?.filter(|thread| thread.problem.is_none());
    match recent.find(|thread| thread.messages > 0 && is_usable(&thread.agent)) {
        Some(thread) => Ok(Some(thread.id)),
        None => {
            let message = match &args.agent {
                Some(agent) => format!("no thread with `{}` to continue", display_safe(agent)),
                None => "no thread to continue".to_owned(),
            };
            Err(CliError::new(exit::NOT_FOUND, message)
                .with_hint(format!("start one: {}", OperatorCommand::StartChat)))
        }
    }
}
