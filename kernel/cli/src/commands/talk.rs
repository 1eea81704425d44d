//! A thread, its user, and the agent's next turn: the shared part of `ask` and `chat`.
//!
//! If a kernel runs for the home, it executes the turns and this process is only its terminal;
//! otherwise this process boots a kernel of its own.

mod approved;
mod own;
mod person;
mod question;
mod running;
mod secret;

use std::path::PathBuf;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use skillhost_kernel::control::{self, AgentDetails, ControlRequest, UserMessage};
use skillhost_kernel::{DEFAULT_AGENT, Kernel, LoadReport, RunOutcome, ThreadSkill, ThreadStore};
use skillhost_payload::SkillRef;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::ChatSessionArgs;
use crate::error::CliError;
use crate::exit;
use crate::output::{DIM, display_safe};
use crate::session::{CliContext, ask_kernel};
use approved::check_approved;
use own::InProcessKernel;
pub(super) use person::TerminalChannel;
pub(super) use question::format_details;
use running::SocketKernel;

/// A chat in one thread.
pub(super) struct ChatSession<'a> {
    pub(super) session: &'a CliContext,
    pub(super) person: Arc<TerminalChannel>,
    pub(super) interrupted: Signal,
    model: Option<String>,
    end: KernelConn<'a>,
}

/// The kernel that executes the turns.
enum KernelConn<'a> {
    InProcess(InProcessKernel<'a>),
    Socket(SocketKernel),
}

/// A summary of a thread.
pub(super) struct ThreadOverview {
    pub(super) messages: usize,
    pub(super) skills: Vec<ThreadSkill>,
}

/// Opens or creates the thread and runs `work` with it.
pub(super) fn with_chat_session<T>(
    session: &CliContext,
    args: &ChatSessionArgs,
    work: impl AsyncFnOnce(&mut ChatSession<'_>) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let home = session.trusted_home()?;
    match (
        running::fetch_load_report(session, &home)?,
        control::socket_path(&home, &session.environment),
    ) {
        (Some(report), Some(socket)) => session.block_on(async {
            let threads = ThreadStore::new(&home);
            let mut talk =
                ChatSession::open_over_socket(session, args, socket, threads, &report).await?;
            work(&mut talk).await
        })?,
        _ => session.with_kernel(async |kernel| {
            let mut talk = ChatSession::open_in_process(session, args, kernel).await?;
            work(&mut talk).await
        }),
    }
}

impl<'a> ChatSession<'a> {
    /// The services of the kernel run from this call on.
    async fn open_in_process(
        session: &'a CliContext,
        args: &ChatSessionArgs,
        kernel: &'a Kernel,
    ) -> Result<Self, CliError> {
        // From here on Ctrl-C cancels a turn and does not end the process.
        let interrupted = signal(SignalKind::interrupt())?;
        check_approved(&args.approve, async |request| {
            let answer = control::execute_request(kernel, request).await?;
            Ok(serde_json::from_str(answer.get()).map_err(std::io::Error::from)?)
        })
        .await?;
        let own = InProcessKernel::open(session, kernel, args).await?;
        let talk = Self::new(session, args, interrupted, KernelConn::InProcess(own));
        talk.print_rejections(&kernel.report());
        kernel.start_services().await;
        Ok(talk)
    }

    async fn open_over_socket(
        session: &'a CliContext,
        args: &ChatSessionArgs,
        socket: PathBuf,
        threads: ThreadStore,
        report: &LoadReport,
    ) -> Result<Self, CliError> {
        let interrupted = signal(SignalKind::interrupt())?;
        check_approved(&args.approve, async |request| {
            request_over_socket(session, &socket, &request).await
        })
        .await?;
        let (thread, agent) = match &args.thread {
            Some(id) => {
                let agent = threads.read(id)?.summary.agent;
                check_agent(id, &agent, args)?;
                (id.clone(), agent)
            }
            None => {
                let agent = args.agent.as_deref().unwrap_or(DEFAULT_AGENT);
                let agent = check_agent_exists(session, &socket, agent).await?;
                (threads.create(&agent)?.id().to_owned(), agent)
            }
        };
        let end = KernelConn::Socket(SocketKernel { socket, threads, thread, agent });
        let talk = Self::new(session, args, interrupted, end);
        talk.print_rejections(report);
        Ok(talk)
    }

    fn new(
        session: &'a CliContext,
        args: &ChatSessionArgs,
        interrupted: Signal,
        end: KernelConn<'a>,
    ) -> Self {
        let agent = match &end {
            KernelConn::InProcess(own) => own.thread.agent(),
            KernelConn::Socket(running) => &running.agent,
        };
        let person = Arc::new(TerminalChannel::new(session.output, agent, &args.approve));
        Self { session, person, interrupted, model: args.model.clone(), end }
    }

    fn print_rejections(&self, report: &LoadReport) {
        for rejected in &report.rejected {
            let (id, reason) = (&rejected.id, &rejected.reason);
            self.session.output.print_note(format!("{id} is not loaded: {reason}"));
        }
    }

    /// Returns the thread's id.
    pub(super) fn thread(&self) -> &str {
        match &self.end {
            KernelConn::InProcess(own) => own.thread.id(),
            KernelConn::Socket(running) => &running.thread,
        }
    }

    /// Returns the thread's agent.
    pub(super) fn agent(&self) -> &str {
        match &self.end {
            KernelConn::InProcess(own) => own.thread.agent(),
            KernelConn::Socket(running) => &running.agent,
        }
    }

    /// Returns a summary of the thread.
    pub(super) fn thread_overview(&self) -> Result<ThreadOverview, CliError> {
        Ok(match &self.end {
            KernelConn::InProcess(own) => ThreadOverview {
                messages: own.thread.messages().len(),
                skills: own.thread.skills().to_vec(),
            },
            KernelConn::Socket(running) => {
                let contents = running.threads.read(&running.thread)?;
                ThreadOverview { messages: contents.messages.len(), skills: contents.skills }
            }
        })
    }

    /// Runs one turn of the agent. Ctrl-C cancels the turn; a second one does not wait for that.
    pub(super) async fn send_message(&mut self, text: String) -> Result<RunOutcome, CliError> {
        let result = match &mut self.end {
            KernelConn::InProcess(own) => {
                own.run_turn(text, self.model.clone(), &self.person, &mut self.interrupted).await
            }
            KernelConn::Socket(running) => {
                let message = UserMessage {
                    message_id: ulid::Ulid::generate().to_string().to_lowercase(),
                    thread: running.thread.clone(),
                    agent: running.agent.clone(),
                    text,
                    model: self.model.clone(),
                };
                let request = ControlRequest::Talk(message);
                running.send_and_follow(request, &self.person, &mut self.interrupted).await
            }
        };
        self.end_of_turn(result)
    }

    /// Waits for the pending reply to earlier messages in the thread; `None` if there is none.
    pub(super) async fn wait_for_pending_reply(&mut self) -> Result<Option<RunOutcome>, CliError> {
        let KernelConn::Socket(running) = &self.end else { return Ok(None) };
        let request = ControlRequest::Attach { thread: running.thread.clone() };
        let result = running.send_and_follow(request, &self.person, &mut self.interrupted).await;
        match result {
            Err(error) if error.code() == exit::NOT_FOUND => Ok(None),
            result => self.end_of_turn(result).map(Some),
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
        match &mut self.end {
            KernelConn::InProcess(own) => own.switch_agent(agent).await?,
            KernelConn::Socket(running) => {
                running.agent = check_agent_exists(self.session, &running.socket, agent).await?;
                running.thread = running.threads.create(&running.agent)?.id().to_owned();
            }
        }
        self.person.set_agent(self.agent());
        Ok(())
    }

    /// Removes the messages of the thread.
    pub(super) fn reset(&mut self) -> Result<(), CliError> {
        match &mut self.end {
            KernelConn::InProcess(own) => own.thread.reset()?,
            // The running kernel locks a thread only during a turn.
            KernelConn::Socket(running) => running.threads.open(&running.thread)?.reset()?,
        }
        Ok(())
    }

    /// Activates a skill in the thread.
    pub(super) async fn activate_skill(&mut self, skill: &str) -> Result<SkillRef, CliError> {
        match &mut self.end {
            KernelConn::InProcess(own) => {
                Ok(own.kernel.activate_skill(&mut own.thread, skill).await?)
            }
            KernelConn::Socket(running) => {
                let (thread, skill) = (running.thread.clone(), skill.to_owned());
                self.request(ControlRequest::Activate { thread, skill }).await
            }
        }
    }

    /// Sends a request to the kernel.
    pub(super) async fn request<T: DeserializeOwned>(
        &self,
        request: ControlRequest,
    ) -> Result<T, CliError> {
        match &self.end {
            KernelConn::InProcess(own) => {
                let answer = control::execute_request(own.kernel, request).await?;
                Ok(serde_json::from_str(answer.get()).map_err(std::io::Error::from)?)
            }
            KernelConn::Socket(running) => {
                request_over_socket(self.session, &running.socket, &request).await
            }
        }
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

/// Checks that an agent exists before a thread is created for it.
async fn check_agent_exists(
    session: &CliContext,
    socket: &std::path::Path,
    id: &str,
) -> Result<String, CliError> {
    let request = ControlRequest::Agent { id: id.to_owned() };
    let details: AgentDetails = request_over_socket(session, socket, &request).await?;
    Ok(details.summary.id.to_string())
}

async fn request_over_socket<T: DeserializeOwned>(
    session: &CliContext,
    socket: &std::path::Path,
    request: &ControlRequest,
) -> Result<T, CliError> {
    let answer = ask_kernel(socket, &session.home()?, request, true).await?;
    answer.ok_or_else(running::kernel_gone)
}

/// Checks that the thread belongs to the agent: a thread keeps its agent.
fn check_agent(id: &str, agent: &str, args: &ChatSessionArgs) -> Result<(), CliError> {
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
