//! The kernel that executes the turns of a thread: the one in this process, or the running one.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::LocalBoxFuture;
use serde_json::value::RawValue;
use skillhost_control::{ControlRequest, LoadReport};
use skillhost_conversation::{Channel, RunOutcome, Thread, ThreadSkill, ThreadStore};
use skillhost_payload::{SkillRef, Workspace};
use skillhost_terminal::{CliError, CommandResult, exit};
use tokio::task::spawn_blocking;

use crate::stop_signals::StopSignals;
use crate::terminal_channel::TerminalChannel;

/// A summary of a thread.
pub struct ThreadOverview {
    /// The number of messages.
    pub messages: usize,
    /// The active skills.
    pub skills: Vec<ThreadSkill>,
}

/// The terminal of a turn, and its Ctrl-C.
pub struct TurnTerminal<'a> {
    pub(crate) person: &'a Arc<TerminalChannel>,
    pub(crate) workspaces: &'a [Workspace],
    pub(crate) interrupted: &'a mut StopSignals,
}

impl TurnTerminal<'_> {
    /// Returns the channel that prints the events of the turn.
    #[must_use]
    pub fn channel(&self) -> Arc<dyn Channel> {
        Arc::<TerminalChannel>::clone(self.person)
    }

    /// Returns the user's directories that the turn may reach.
    #[must_use]
    pub fn workspaces(&self) -> &[Workspace] {
        self.workspaces
    }

    /// Waits for Ctrl-C, or for the end of the terminal.
    pub async fn wait_for_interrupt(&mut self) {
        self.interrupted.recv().await;
    }
}

/// A kernel that answers the messages of a chat.
pub struct OpenedKernel<'a> {
    /// The connection, with the thread.
    pub connection: Box<dyn KernelConnection + 'a>,
    /// The report of the kernel's start.
    pub report: LoadReport,
    /// Ctrl-C, which cancels a turn from now on and does not end the process.
    pub interrupted: StopSignals,
}

/// The part of a command that needs a kernel.
pub type ChatWork<'a> = Box<dyn FnOnce(OpenedKernel<'a>) -> LocalBoxFuture<'a, CommandResult> + 'a>;

/// The thread that a kernel opens for a chat.
#[derive(Debug, Clone, Default)]
pub struct ThreadChoice {
    /// The complete id of an existing thread; `None` for a new one.
    pub thread: Option<String>,
    /// The agent of the thread; `None` for that of the thread, or the default one.
    pub agent: Option<String>,
    /// The tools that are approved in advance.
    pub approve: Vec<String>,
}

/// A function that boots a kernel in this process, opens the thread and runs the work with them.
pub type KernelBoot<'a> = dyn Fn(ThreadChoice, ChatWork<'a>) -> CommandResult + 'a;

/// A connection to a kernel, for one thread at a time.
#[async_trait(?Send)]
pub trait KernelConnection {
    /// Returns the thread's id.
    fn thread(&self) -> &str;

    /// Returns the thread's agent.
    fn agent(&self) -> &str;

    /// Returns a summary of the thread.
    fn thread_overview(&self) -> Result<ThreadOverview, CliError>;

    /// Runs one turn of the agent. Ctrl-C cancels the turn; a second one does not wait for that.
    async fn run_turn(
        &mut self,
        text: String,
        model: Option<String>,
        terminal: TurnTerminal<'_>,
    ) -> Result<RunOutcome, CliError>;

    /// Waits for the pending reply to earlier messages in the thread; `None` if there is none.
    async fn wait_for_pending_reply(
        &mut self,
        terminal: TurnTerminal<'_>,
    ) -> Result<Option<RunOutcome>, CliError>;

    /// Creates another thread with an agent.
    async fn switch_agent(&mut self, agent: &str) -> Result<(), CliError>;

    /// Continues with another thread, named by its complete id. The present one is removed if it
    /// never held a message, as by [`KernelConnection::switch_agent`].
    async fn switch_thread(&mut self, id: &str) -> Result<(), CliError>;

    /// Closes the thread at the end of a chat, and removes it if it never held a message; returns
    /// whether it was removed.
    async fn close_thread(&mut self) -> Result<bool, CliError>;

    /// Summarizes the older messages of the thread.
    async fn compact(&mut self, model: Option<String>) -> Result<RunOutcome, CliError>;

    /// Removes the messages of the thread.
    async fn reset(&mut self) -> Result<(), CliError>;

    /// Activates a skill in the thread.
    async fn activate_skill(&mut self, skill: &str) -> Result<SkillRef, CliError>;

    /// Sends a request to the kernel.
    async fn request(&self, request: ControlRequest) -> Result<Box<RawValue>, CliError>;
}

/// Creates a thread, on a thread of the process that may wait for the disk.
///
/// # Errors
/// The thread's journal cannot be written.
pub async fn create_thread(threads: ThreadStore, agent: &str) -> Result<Thread, CliError> {
    let agent = agent.to_owned();
    let created = spawn_blocking(move || threads.create(&agent)).await;
    Ok(created.map_err(io::Error::other)??)
}

/// Resumes a thread as [`create_thread`] creates one.
///
/// # Errors
/// The thread does not exist, is in use, or is not readable.
pub async fn open_thread(threads: ThreadStore, id: &str) -> Result<Thread, CliError> {
    let id = id.to_owned();
    let opened = spawn_blocking(move || threads.open(&id)).await;
    Ok(opened.map_err(io::Error::other)??)
}

/// Checks that the thread belongs to the agent: a thread keeps its agent.
///
/// # Errors
/// The arguments name another agent.
pub fn check_agent(id: &str, agent: &str, choice: &ThreadChoice) -> Result<(), CliError> {
    match choice.agent.as_deref().filter(|wanted| *wanted != agent) {
        None => Ok(()),
        Some(wanted) => {
            let message = format!("thread `{id}` is with `{agent}`, not with `{wanted}`");
            Err(CliError::new(exit::USAGE, message).with_hint(
                "leave --agent out, or begin a thread with that agent by leaving --thread out",
            ))
        }
    }
}

/// Closes a thread as [`create_thread`] creates one, and removes it if it never held a message;
/// returns whether it was removed.
///
/// # Errors
/// The thread cannot be removed.
pub async fn discard_if_unused(thread: Thread) -> Result<bool, CliError> {
    let discarded = spawn_blocking(move || thread.discard_if_unused()).await;
    Ok(discarded.map_err(io::Error::other)??)
}
