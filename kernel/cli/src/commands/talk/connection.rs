//! The kernel that executes the turns of a thread: the one in this process, or the running one.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::value::RawValue;
use skillhost_control::ControlRequest;
use skillhost_conversation::{RunOutcome, Thread, ThreadSkill, ThreadStore};
use skillhost_payload::SkillRef;
use skillhost_terminal::{CliError, exit};
use tokio::signal::unix::Signal;
use tokio::task::spawn_blocking;

use super::terminal_channel::TerminalChannel;
use crate::cli::ChatSessionArgs;

/// A summary of a thread.
pub(in crate::commands) struct ThreadOverview {
    pub(in crate::commands) messages: usize,
    pub(in crate::commands) skills: Vec<ThreadSkill>,
}

/// The terminal of a turn, and its Ctrl-C.
pub(super) struct TurnTerminal<'a> {
    pub(super) person: &'a Arc<TerminalChannel>,
    pub(super) interrupted: &'a mut Signal,
}

/// A connection to a kernel, for one thread at a time.
#[async_trait(?Send)]
pub(super) trait KernelConnection {
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

    /// Removes the messages of the thread.
    async fn reset(&mut self) -> Result<(), CliError>;

    /// Activates a skill in the thread.
    async fn activate_skill(&mut self, skill: &str) -> Result<SkillRef, CliError>;

    /// Sends a request to the kernel.
    async fn request(&self, request: ControlRequest) -> Result<Box<RawValue>, CliError>;
}

/// Creates a thread, on a thread of the process that may wait for the disk.
pub(super) async fn create_thread(threads: ThreadStore, agent: &str) -> Result<Thread, CliError> {
    let agent = agent.to_owned();
    let created = spawn_blocking(move || threads.create(&agent)).await;
    Ok(created.map_err(io::Error::other)??)
}

/// Resumes a thread as [`create_thread`] creates one.
pub(super) async fn open_thread(threads: ThreadStore, id: &str) -> Result<Thread, CliError> {
    let id = id.to_owned();
    let opened = spawn_blocking(move || threads.open(&id)).await;
    Ok(opened.map_err(io::Error::other)??)
}

/// Checks that the thread belongs to the agent: a thread keeps its agent.
pub(super) fn check_agent(id: &str, agent: &str, args: &ChatSessionArgs) -> Result<(), CliError> {
    match args.agent.as_deref().filter(|wanted| *wanted != agent) {
        None => Ok(()),
        Some(wanted) => {
            let message = format!("thread `{id}` is with `{agent}`, not with `{wanted}`");
            Err(CliError::new(exit::USAGE, message).with_hint(
                "leave --agent out, or begin a thread with that agent by leaving --thread out",
            ))
        }
    }
}
