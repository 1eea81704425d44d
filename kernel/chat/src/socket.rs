//! A thread executed by the kernel that `skillhost run` runs, which may restart in between.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::value::RawValue;
use skillhost_control::{
    AgentDetails, ClientMessage, ControlRequest, DEFAULT_AGENT, DecisionSurface, LoadReport,
    MessageConnection, ServerMessage, SupervisorLock, UserMessage, is_gone,
};
use skillhost_conversation::{Channel, RunOutcome, ThreadStore};
use skillhost_home::Home;
use skillhost_payload::SkillRef;
use skillhost_terminal::{
    CliContext, CliError, KERNEL_PAUSE, KERNEL_WAIT, ask_kernel, exit, parse_answer,
};
use tokio::task::{AbortHandle, JoinSet};

use crate::approved::check_approved;
use crate::connection::{
    KernelConnection, ThreadChoice, ThreadOverview, TurnTerminal, check_agent, create_thread,
    discard_if_unused, open_thread,
};
use crate::stop_signals::StopSignals;
use crate::terminal_channel::TerminalChannel;

/// Returns the load report of the home's running kernel. A restarting kernel is awaited: a second
/// kernel in this process would conflict with it.
pub(crate) fn fetch_load_report(
    session: &CliContext,
    home: &Home,
) -> Result<Option<LoadReport>, CliError> {
    let began = Instant::now();
    loop {
        let running = session.try_running_kernel(home, &ControlRequest::Report)?;
        // The lock outlives the kernel: while it is held, a restart is under way.
        if running.is_some() || !SupervisorLock::is_held(home) {
            return Ok(running);
        }
        if began.elapsed() > KERNEL_WAIT {
            return Err(kernel_unreachable_error(DeliveryState::NotSent));
        }
        std::thread::sleep(KERNEL_PAUSE);
    }
}

/// The time limit of the wait for the kernel to close an empty thread.
const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// A connection to the running kernel, and the thread.
pub(crate) struct SocketKernel<'a> {
    session: &'a CliContext,
    socket: PathBuf,
    threads: ThreadStore,
    thread: String,
    agent: String,
}

/// The end of a connection.
enum ConnectionEnd {
    Done(RunOutcome),
    /// The kernel has ended and may return.
    Lost,
}

/// Whether a kernel has stored the message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DeliveryState {
    NotSent,
    /// The message was sent but not acknowledged.
    Unacknowledged,
    /// A kernel has stored the message.
    Stored,
}

/// One exchange, over any number of connections.
struct MessageExchange<'a> {
    person: &'a Arc<TerminalChannel>,
    interrupted: &'a mut StopSignals,
    /// The request, sent again after a reconnect.
    request: ControlRequest,
    delivery: DeliveryState,
    cancelled: bool,
}

impl<'a> SocketKernel<'a> {
    /// Finds or creates the thread.
    pub(crate) async fn open(
        session: &'a CliContext,
        socket: PathBuf,
        home: &Home,
        choice: &ThreadChoice,
    ) -> Result<Self, CliError> {
        check_approved(&choice.approve, &|request| {
            Box::pin(send_request(session, &socket, request))
        })
        .await?;
        let threads = ThreadStore::new(home);
        let (thread, agent) = match &choice.thread {
            Some(id) => {
                let agent = threads.read(id)?.summary.agent;
                check_agent(id, &agent, choice)?;
                (id.clone(), agent)
            }
            None => {
                let agent = choice.agent.as_deref().unwrap_or(DEFAULT_AGENT);
                let agent = check_agent_exists(session, &socket, agent).await?;
                let thread = create_thread(threads.clone(), &agent).await?;
                (thread.id().to_owned(), agent)
            }
        };
        Ok(Self { session, socket, threads, thread, agent })
    }

    /// Sends a request and follows its progress. Ctrl-C cancels the run; a second one leaves the
    /// run to the kernel.
    async fn send_and_follow(
        &self,
        request: ControlRequest,
        terminal: TurnTerminal<'_>,
    ) -> Result<RunOutcome, CliError> {
        let mut talked = MessageExchange {
            person: terminal.person,
            interrupted: terminal.interrupted,
            request,
            delivery: DeliveryState::NotSent,
            cancelled: false,
        };
        let mut lost: Option<Instant> = None;
        loop {
            let over = match MessageConnection::open(&self.socket, &talked.request).await {
                Ok(connection) => {
                    lost = None;
                    talked.follow(connection).await?
                }
                // `WouldBlock` means a full backlog of a kernel that does not accept yet.
                Err(error) if is_gone(&error) || error.kind() == io::ErrorKind::WouldBlock => {
                    ConnectionEnd::Lost
                }
                Err(error) => return Err(CliError::io(&self.socket, &error)),
            };
            if let ConnectionEnd::Done(outcome) = over {
                return Ok(outcome);
            }
            // Measured from the first failure, so that attempts do not extend the limit.
            if lost.get_or_insert_with(Instant::now).elapsed() > KERNEL_WAIT {
                return Err(kernel_unreachable_error(talked.delivery));
            }
            talked.person.announce_reconnect();
            tokio::select! {
                biased;
                // Without a kernel there is no run to cancel, so the first Ctrl-C ends the wait.
                () = talked.interrupted.recv() => return Err(interrupted_error()),
                () = tokio::time::sleep(KERNEL_PAUSE) => {}
            }
        }
    }
}

#[async_trait(?Send)]
impl KernelConnection for SocketKernel<'_> {
    fn thread(&self) -> &str {
        &self.thread
    }

    fn agent(&self) -> &str {
        &self.agent
    }

    fn thread_overview(&self) -> Result<ThreadOverview, CliError> {
        let contents = self.threads.read(&self.thread)?;
        Ok(ThreadOverview { messages: contents.messages.len(), skills: contents.skills })
    }

    async fn run_turn(
        &mut self,
        text: String,
        model: Option<String>,
        terminal: TurnTerminal<'_>,
    ) -> Result<RunOutcome, CliError> {
        let message = UserMessage {
            message_id: ulid::Ulid::generate().to_string().to_lowercase(),
            thread: self.thread.clone(),
            agent: self.agent.clone(),
            text,
            model,
            workspaces: terminal.workspaces.to_vec(),
            channel: None,
        };
        self.send_and_follow(ControlRequest::Talk(message), terminal).await
    }

    async fn wait_for_pending_reply(
        &mut self,
        terminal: TurnTerminal<'_>,
    ) -> Result<Option<RunOutcome>, CliError> {
        let request = ControlRequest::Attach { thread: self.thread.clone() };
        match self.send_and_follow(request, terminal).await {
            Err(error) if error.code() == exit::NOT_FOUND => Ok(None),
            result => result.map(Some),
        }
    }

    async fn switch_agent(&mut self, agent: &str) -> Result<(), CliError> {
        let agent = check_agent_exists(self.session, &self.socket, agent).await?;
        let thread = create_thread(self.threads.clone(), &agent).await?;
        self.close_thread().await?;
        self.agent = agent;
        self.thread = thread.id().to_owned();
        Ok(())
    }

    async fn switch_thread(&mut self, id: &str) -> Result<(), CliError> {
        let (threads, wanted) = (self.threads.clone(), id.to_owned());
        let contents = tokio::task::spawn_blocking(move || threads.read(&wanted)).await;
        let agent = contents.map_err(io::Error::other)??.summary.agent;
        self.close_thread().await?;
        (self.thread, self.agent) = (id.to_owned(), agent);
        Ok(())
    }

    async fn close_thread(&mut self) -> Result<bool, CliError> {
        let began = Instant::now();
        loop {
            match open_thread(self.threads.clone(), &self.thread).await {
                Ok(thread) => return discard_if_unused(thread).await,
                // The kernel closes the thread of a failed run a moment after its error.
                Err(error) if error.code() == exit::CONFLICT => {
                    let is_used = self.thread_overview()?.messages > 0;
                    if is_used || began.elapsed() > CLOSE_WAIT {
                        return Ok(false);
                    }
                    tokio::time::sleep(KERNEL_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn compact(&mut self, model: Option<String>) -> Result<RunOutcome, CliError> {
        let request = ControlRequest::Compact { thread: self.thread.clone(), model };
        parse_answer(&self.request(request).await?)
    }

    /// The running kernel locks a thread only during a turn.
    async fn reset(&mut self) -> Result<(), CliError> {
        let mut thread = open_thread(self.threads.clone(), &self.thread).await?;
        Ok(thread.reset().await?)
    }

    async fn activate_skill(&mut self, skill: &str) -> Result<SkillRef, CliError> {
        let (thread, skill) = (self.thread.clone(), skill.to_owned());
        parse_answer(&self.request(ControlRequest::Activate { thread, skill }).await?)
    }

    async fn request(&self, request: ControlRequest) -> Result<Box<RawValue>, CliError> {
        send_request(self.session, &self.socket, request).await
    }
}

/// Checks that an agent exists before a thread is created for it.
async fn check_agent_exists(
    session: &CliContext,
    socket: &Path,
    id: &str,
) -> Result<String, CliError> {
    let request = ControlRequest::Agent { id: id.to_owned() };
    let details: AgentDetails = parse_answer(&send_request(session, socket, request).await?)?;
    Ok(details.summary.id.to_string())
}

async fn send_request(
    session: &CliContext,
    socket: &Path,
    request: ControlRequest,
) -> Result<Box<RawValue>, CliError> {
    let answer = ask_kernel(socket, &session.home()?, &request, true).await?;
    answer.ok_or_else(kernel_gone)
}

impl MessageExchange<'_> {
    async fn follow(
        &mut self,
        mut connection: MessageConnection,
    ) -> Result<ConnectionEnd, CliError> {
        // The request was sent with the connection; a stored message stays stored.
        if self.delivery == DeliveryState::NotSent {
            self.delivery = DeliveryState::Unacknowledged;
        }
        let mut questions = JoinSet::new();
        let mut open: HashMap<u64, AbortHandle> = HashMap::new();
        // The new kernel resumes the run and does not know of the cancellation.
        if self.cancelled && connection.send(&ClientMessage::Cancel).await.is_err() {
            return Ok(ConnectionEnd::Lost);
        }
        loop {
            let reply = tokio::select! {
                biased;
                () = self.interrupted.recv() => {
                    // The kernel does not need a terminal, so the run goes on without this one.
                    if self.interrupted.is_hung_up() {
                        return Err(terminal_closed_error());
                    }
                    if self.cancelled {
                        return Err(interrupted_error());
                    }
                    self.cancelled = true;
                    ClientMessage::Cancel
                }
                // A withdrawn prompt has no reply.
                Some(answered) = questions.join_next() => match answered {
                    Ok(reply) => reply,
                    Err(_) => continue,
                },
                line = connection.next() => {
                    let Ok(Some(line)) = line else { return Ok(ConnectionEnd::Lost) };
                    match line {
                        ServerMessage::Accepted(message) => {
                            // After a reconnect the kernel streams the reply from its start.
                            self.person.reset_reply();
                            self.delivery = DeliveryState::Stored;
                            // The stored form carries the message id, so a resend is recognized and
                            // not run twice.
                            self.request = ControlRequest::Talk(message);
                        }
                        ServerMessage::RunEvent(event) => self.person.on_event(&event),
                        ServerMessage::ApprovalRequested { id, request, question } => {
                            let person = Arc::clone(self.person);
                            let digest = question.map(|question| question.digest);
                            let surface = Some(DecisionSurface::Terminal);
                            let asking = async move {
                                let decision = Channel::request_approval(&*person, &request).await;
                                ClientMessage::Answer { id, decision, digest, surface }
                            };
                            open.insert(id, questions.spawn(asking));
                        }
                        ServerMessage::SecretRequested { id, request } => {
                            let person = Arc::clone(self.person);
                            let asking =
                                async move { ClientMessage::from_secret_reply(id, person.request_secret(&request).await) };
                            open.insert(id, questions.spawn(asking));
                        }
                        ServerMessage::UncertainCall { id, request, question } => {
                            let person = Arc::clone(self.person);
                            let digest = question.map(|question| question.digest);
                            let surface = Some(DecisionSurface::Terminal);
                            let asking = async move {
                                let decision = person.resolve_uncertain_call(&request).await;
                                ClientMessage::UncertainDecided { id, decision, digest, surface }
                            };
                            open.insert(id, questions.spawn(asking));
                        }
                        ServerMessage::PersonQuestion { id, request, question } => {
                            let person = Arc::clone(self.person);
                            let digest = question.map(|question| question.digest);
                            let surface = Some(DecisionSurface::Terminal);
                            let asking = async move {
                                let reply = person.ask_person(&request).await;
                                ClientMessage::PersonReplied { id, reply, digest, surface }
                            };
                            open.insert(id, questions.spawn(asking));
                        }
                        ServerMessage::QuestionWithdrawn { id, closure, is_rejected } => {
                            let asking = open.remove(&id);
                            let was_open = asking.as_ref().is_some_and(|it| !it.is_finished());
                            if let Some(asking) = asking {
                                // Dropping the prompt stops the terminal read and frees the
                                // terminal for the next one.
                                asking.abort();
                            }
                            // The end of a question that this terminal decided needs no line.
                            if let Some(closure) = closure.filter(|_| was_open || is_rejected) {
                                self.person.announce_closure(&closure, is_rejected);
                            }
                        }
                        ServerMessage::ShuttingDown { again: true } => return Ok(ConnectionEnd::Lost),
                        ServerMessage::ShuttingDown { again: false } => return Err(run_ended_error()),
                        ServerMessage::Done(outcome) => return Ok(ConnectionEnd::Done(outcome)),
                        ServerMessage::Failed(failure) => return Err(failure.into()),
                    }
                    continue;
                }
            };
            if connection.send(&reply).await.is_err() {
                return Ok(ConnectionEnd::Lost);
            }
        }
    }
}

fn interrupted_error() -> CliError {
    CliError::new(exit::INTERRUPTED, "interrupted; the kernel cancels the run")
}

fn terminal_closed_error() -> CliError {
    CliError::new(exit::INTERRUPTED, "the terminal was closed; the kernel continues the run")
}

const MESSAGE_STORED_HINT: &str =
    "the message is stored: the next `skillhost run` continues with it";

fn run_ended_error() -> CliError {
    CliError::new(exit::FINDINGS, "the kernel ended before it replied")
        .with_hint(MESSAGE_STORED_HINT)
}

fn kernel_unreachable_error(delivery: DeliveryState) -> CliError {
    let seconds = KERNEL_WAIT.as_secs();
    let message = format!("the kernel ended, and no other one started within {seconds} s");
    CliError::new(exit::FINDINGS, message).with_hint(match delivery {
        DeliveryState::Stored => MESSAGE_STORED_HINT,
        DeliveryState::Unacknowledged => {
            "the message may be stored: if it is, the next `skillhost run` continues with it"
        }
        DeliveryState::NotSent => {
            "the message was not sent: repeat the command, or start a kernel first: skillhost run"
        }
    })
}

/// Returns the error for a kernel that has just ended.
fn kernel_gone() -> CliError {
    CliError::new(exit::FINDINGS, "the kernel ended").with_hint("start it again: skillhost run")
}
