//! How one command reaches the kernel that another command runs: a local socket per home.
//!
//! One JSON line in, one JSON line out. A command that finds no running kernel boots its own and
//! has the same request performed there, so that both answer alike. The directory of the socket is its
//! owner's alone, and each end makes sure that the other is the same user's (see [`endpoint`]):
//! whoever can connect could also replace the libraries that the kernel loads.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use skillhost_contract::payload::{CallContext, ErrorKind};

use crate::approvals::ApprovalSurface;
use crate::error::{CallError, KernelError};
use crate::home::{Environment, Home};
use crate::kernel::{Kernel, TurnRequest};
use crate::loader::to_hex;
use crate::runtime::RunError;
use crate::thread::ThreadStore;
use talk::MessageRequest;

mod answers;
mod endpoint;
mod talk;

pub use answers::{
    AgentDetails, AgentStatus, AgentSummary, ExtensionDiagnosis, ExtensionHealth, FailedListing,
    ToolListing,
};
pub use talk::{ClientMessage, MessageConnection, MessageError, ServerMessage, UserMessage};

/// What can be asked of a kernel, running or the caller's own. Whoever can connect is the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum ControlRequest {
    /// Take a new build of an extension into use: answers [`crate::ReloadOutcome`].
    Reload {
        /// The extension.
        id: String,
    },
    /// Say what would be built: answers [`crate::BuildPreview`].
    PreviewBuild {
        /// The extension.
        id: String,
    },
    /// Build and install an extension: answers [`crate::SnapshotIndex`]. Given up when whoever asks goes
    /// away.
    Build {
        /// The extension.
        id: String,
        /// The files that somebody agreed to, as the preview names them.
        sha256: String,
        /// Where that was.
        #[serde(default = "command_line")]
        surface: ApprovalSurface,
    },
    /// Take the build before back: answers [`crate::RollbackOutcome`].
    RollBack {
        /// The extension.
        id: String,
    },
    /// Compose one turn: answers [`crate::BlockRequest`].
    Turn {
        /// The agent.
        agent: String,
        /// What the user says.
        prompt: String,
    },
    /// Call an operator's tool about an agent: answers [`crate::ToolOutput`].
    InvokeFor {
        /// The agent.
        agent: String,
        /// The tool.
        tool: String,
        /// Its arguments, JSON text.
        arguments: String,
    },
    /// Call a tool: answers [`crate::ToolOutput`].
    Invoke {
        /// Who calls.
        context: CallContext,
        /// The tool.
        tool: String,
        /// Its arguments, JSON text.
        arguments: String,
    },
    /// List tools: answers [`ToolListing`].
    Tools {
        /// The agent whose tools are wanted; absent, the operator's.
        agent: Option<String>,
    },
    /// List agents, up to date: answers a list of [`AgentSummary`].
    Agents,
    /// Show an agent, up to date: answers [`AgentDetails`].
    Agent {
        /// The agent.
        id: String,
    },
    /// Say something in a thread: a conversation follows, see [`Connection`].
    Talk(UserMessage),
    /// Hear what becomes of what was said in a thread and is not answered yet, as for `Talk`.
    Attach {
        /// The thread.
        thread: String,
    },
    /// Make a skill active in a thread that is at rest: answers its [`crate::SkillRef`].
    Activate {
        /// The thread.
        thread: String,
        /// The skill.
        skill: String,
    },
    /// Say what was loaded and what was not: answers [`crate::LoadReport`].
    Report,
    /// The report, and every library asked for its health: answers [`ExtensionDiagnosis`].
    Diagnose,
    /// List schedules: answers a list of [`crate::ScheduleSummary`].
    Schedules,
    /// Run a schedule now and wait for it: answers [`crate::ScheduleRunOutcome`].
    RunSchedule {
        /// The schedule, `extension/name`.
        id: String,
    },
}

fn command_line() -> ApprovalSurface {
    ApprovalSurface::CommandLine
}

/// What a running kernel answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlResponse {
    /// The result, as the request says.
    Done(Box<RawValue>),
    /// It was not done.
    Failed(CallError),
}

/// A request or reply is one line of at most this many bytes: a skill's text, escaped, fits.
const LINE_LIMIT: u64 = 32 * 1024 * 1024;

/// Connections that have not sent their request yet.
const SILENT_CONNECTIONS: usize = 32;

/// The wait after a connection could not be accepted; it doubles with every other one.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(20);

/// The longest such wait.
const LONGEST_ACCEPT_BACKOFF: Duration = Duration::from_secs(1);

/// The socket of a home.
#[must_use]
pub fn socket_path(home: &Home, environment: &Environment) -> Option<PathBuf> {
    let name = to_hex(&Sha256::digest(home.root().as_os_str().as_encoded_bytes())[..8]);
    environment.socket_dir().map(|folder| folder.join(format!("{name}.sock")))
}

/// A kernel's listening end; the socket is removed when it is dropped.
pub struct ControlServer {
    listener: UnixListener,
    path: PathBuf,
}

impl ControlServer {
    /// Listens for requests. A socket left behind by a kernel that is gone is replaced.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] when another kernel runs for this home,
    /// [`io::ErrorKind::PermissionDenied`] when the directory is not this user's alone.
    pub async fn bind(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            endpoint::prepare_folder(folder)?;
        }
        if UnixStream::connect(path).await.is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(Self { listener: UnixListener::bind(path)?, path: path.to_owned() })
    }

    /// Answers requests until dropped. Connections that do not send one are limited in number and
    /// in time; those that come meanwhile wait.
    pub async fn serve(self, kernel: Kernel) {
        let silent = Arc::new(Semaphore::new(SILENT_CONNECTIONS));
        let mut failed = 0;
        loop {
            // Nobody closes it.
            let Ok(permit) = Arc::clone(&silent).acquire_owned().await else { return };
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    failed = 0;
                    let kernel = kernel.clone();
                    tokio::spawn(async move {
                        if let Err(error) = handle_connection(stream, &kernel, permit).await {
                            tracing::debug!(%error, "a control connection ended early");
                        }
                    });
                }
                // Such as too many open files. The client waits in the queue of the socket.
                Err(error) => {
                    let wait = accept_backoff(failed);
                    failed += 1;
                    tracing::warn!(%error, ?wait, "the control socket cannot accept; trying again");
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }
}

/// How long to wait after so many failures in a row and one more.
fn accept_backoff(failed: u32) -> Duration {
    ACCEPT_BACKOFF.saturating_mul(1 << failed.min(8)).min(LONGEST_ACCEPT_BACKOFF)
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        // A kernel that starts later replaces what could not be removed.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn handle_connection(
    stream: UnixStream,
    kernel: &Kernel,
    silent: OwnedSemaphorePermit,
) -> io::Result<()> {
    endpoint::check_peer(&stream)?;
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let mut request = String::new();
    let limit = kernel.shared.limits.control;
    within(limit, (&mut read).take(LINE_LIMIT).read_line(&mut request)).await?;
    drop(silent);
    if !request.ends_with('\n') && (request.len() as u64) < LINE_LIMIT {
        // Whoever asked is gone, and would take what is done now for not done.
        return Ok(());
    }
    let reply = match serde_json::from_str::<ControlRequest>(&request) {
        Ok(ControlRequest::Talk(said)) => {
            return talk::serve_messages(kernel, MessageRequest::Talk(said), read, write).await;
        }
        Ok(ControlRequest::Attach { thread }) => {
            return talk::serve_messages(kernel, MessageRequest::Attach { thread }, read, write)
                .await;
        }
        // A build is given up with whoever wanted it; everything else is done in no time.
        Ok(request @ ControlRequest::Build { .. }) => tokio::select! {
            () = wait_for_disconnect(&mut read) => return Ok(()),
            done = execute_request(kernel, request) => to_response(done),
        },
        Ok(request) => to_response(execute_request(kernel, request).await),
        Err(error) => ControlResponse::Failed(
            CallError::new(ErrorKind::Protocol, format!("the request is unreadable: {error}"))
                .with_hint("start `skillhost run` again if it is of another version"),
        ),
    };
    within(limit, write_line(&mut write, &reply)).await
}

/// Limits the time in which the other end has to send or to read something.
async fn within<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

fn to_response(done: Result<Box<RawValue>, KernelError>) -> ControlResponse {
    match done {
        Ok(value) => ControlResponse::Done(value),
        Err(error) => {
            let (kind, message, hint) = (error.kind(), error.to_string(), error.hint());
            ControlResponse::Failed(CallError { kind, message, hint })
        }
    }
}

/// Waits until the other end is closed.
async fn wait_for_disconnect(stream: &mut (impl AsyncRead + Unpin)) {
    let mut more = [0; 64];
    // Whoever has asked has nothing more to say.
    while stream.read(&mut more).await.is_ok_and(|read| read > 0) {}
}

/// Does what a request asks for; the answer is what the request's documentation names, as JSON.
///
/// # Errors
/// What the kernel's own function for it says.
pub async fn execute_request(
    kernel: &Kernel,
    request: ControlRequest,
) -> Result<Box<RawValue>, KernelError> {
    match request {
        ControlRequest::Reload { id } => to_raw_json(&kernel.reload(&id).await?),
        ControlRequest::PreviewBuild { id } => to_raw_json(&kernel.preview_build(&id).await?),
        ControlRequest::Build { id, sha256, surface } => {
            to_raw_json(&kernel.build_extension(&id, &sha256, surface).await?)
        }
        ControlRequest::RollBack { id } => to_raw_json(&kernel.rollback_extension(&id).await?),
        ControlRequest::Turn { agent, prompt } => {
            let turn = TurnRequest { agent: Some(agent), prompt, ..TurnRequest::default() };
            to_raw_json(&kernel.compose_turn(&turn).await?)
        }
        ControlRequest::InvokeFor { agent, tool, arguments } => {
            to_raw_json(&kernel.invoke_for_agent(&agent, &tool, &arguments).await?)
        }
        ControlRequest::Invoke { context, tool, arguments } => {
            to_raw_json(&kernel.invoke_tool_as(context, &tool, &arguments).await?)
        }
        ControlRequest::Tools { agent } => {
            to_raw_json(&answers::list_tools(kernel, agent.as_deref()).await?)
        }
        ControlRequest::Agents => to_raw_json(&answers::list_agents(kernel).await?),
        ControlRequest::Agent { id } => to_raw_json(&answers::describe_agent(kernel, &id).await?),
        ControlRequest::Activate { thread, skill } => {
            let mut thread = ThreadStore::new(kernel.home())
                .open(&thread)
                .map_err(|error| CallError::from(RunError::from(error)))?;
            let active = kernel.activate_skill(&mut thread, &skill).await;
            to_raw_json(&active.map_err(CallError::from)?)
        }
        ControlRequest::Talk(_) | ControlRequest::Attach { .. } => {
            let message = "a conversation is not one question and one answer";
            Err(CallError::new(ErrorKind::InvalidArgument, message).into())
        }
        ControlRequest::Report => to_raw_json(&*kernel.report()),
        ControlRequest::Diagnose => to_raw_json(&answers::diagnose(kernel).await),
        ControlRequest::Schedules => to_raw_json(&kernel.list_schedules().await),
        ControlRequest::RunSchedule { id } => to_raw_json(&kernel.run_schedule(&id).await?),
    }
}

fn to_raw_json<T: Serialize>(value: &T) -> Result<Box<RawValue>, KernelError> {
    serde_json::value::to_raw_value(value).map_err(|error| CallError::protocol_error(&error).into())
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// No kernel was reached, or the request did not get there as a whole: nothing was done.
    #[error("{0}")]
    NotSent(io::Error),
    /// The connection broke after the request was sent: it may have been done.
    #[error("the kernel ended before it answered: {0}")]
    NoAnswer(io::Error),
    /// What came is not an answer.
    #[error("{0}")]
    Unreadable(serde_json::Error),
}

impl RequestError {
    /// Whether no kernel listens, or none that can be reached just now.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::NotSent(error) if is_gone(error))
    }
}

/// Whether an error of a connection means that no kernel is at its other end, or none any more.
#[must_use]
pub fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::NotFound
            | Kind::ConnectionRefused
            | Kind::ConnectionReset
            | Kind::ConnectionAborted
            | Kind::NotConnected
            | Kind::BrokenPipe
            | Kind::UnexpectedEof
    )
}

impl ControlRequest {
    /// Whether nothing happens twice where it is sent twice.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        match self {
            Self::PreviewBuild { .. }
            | Self::Turn { .. }
            | Self::Tools { .. }
            | Self::Agents
            | Self::Agent { .. }
            | Self::Talk(_)
            | Self::Attach { .. }
            | Self::Activate { .. }
            | Self::Report
            | Self::Diagnose
            | Self::Schedules => true,
            Self::Reload { .. }
            | Self::Build { .. }
            | Self::RollBack { .. }
            | Self::InvokeFor { .. }
            | Self::Invoke { .. }
            | Self::RunSchedule { .. } => false,
        }
    }
}

/// Sends a request to the kernel that runs for a home.
///
/// # Errors
/// [`RequestError`]; [`RequestError::is_gone`] when none runs. Nothing is sent to another user.
pub async fn send_request(
    path: &Path,
    request: &ControlRequest,
) -> Result<ControlResponse, RequestError> {
    let mut stream = endpoint::connect(path).await.map_err(RequestError::NotSent)?;
    // A kernel does nothing about a line that is not whole.
    write_line(&mut stream, request).await.map_err(RequestError::NotSent)?;
    let mut line = String::new();
    let read = BufReader::new(stream.take(LINE_LIMIT)).read_line(&mut line).await;
    match read {
        Ok(_) if line.ends_with('\n') => {
            serde_json::from_str(&line).map_err(RequestError::Unreadable)
        }
        Ok(_) => Err(RequestError::NoAnswer(io::ErrorKind::UnexpectedEof.into())),
        Err(error) => Err(RequestError::NoAnswer(error)),
    }
}

async fn write_line<T: Serialize>(
    stream: &mut (impl AsyncWrite + Unpin),
    value: &T,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line).await
}
