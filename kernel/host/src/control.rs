//! The control socket of a home, by which one command reaches the kernel that another command runs.
//!
//! A request is one JSON line, and so is its response. A command that finds no running kernel boots
//! its own and executes the same request there, so that both respond alike. The directory of the
//! socket is private to its owner, and each end checks that the peer is the same user: a peer could
//! also replace the libraries that the kernel loads.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::value::RawValue;
use skillhost_agents::{RunError, TurnRequest};
use skillhost_control::{
    ControlRequest, ControlResponse, LINE_LIMIT, StopOutcome, check_peer, prepare_directory,
    with_timeout, write_line,
};
use skillhost_conversation::{Thread, ThreadError};
use skillhost_core::KernelError;
use skillhost_payload::{CallError, ErrorKind, OperatorCommand};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

use crate::kernel::Kernel;
use crate::thread_locks::open_thread;
use talk::MessageRequest;

mod answers;
mod talk;

/// The limit of connections that have not sent their request yet.
const MAX_SILENT_CONNECTIONS: usize = 32;

/// The pause after a connection could not be accepted; it doubles with every further failure.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(20);

/// The surface of the decisions of programs at the socket.
const SURFACE: &str = "socket";

/// The longest such pause.
const MAX_ACCEPT_BACKOFF: Duration = Duration::from_secs(1);

/// The listening end of a kernel; the socket is removed when it is dropped.
pub struct ControlServer {
    listener: UnixListener,
    path: PathBuf,
}

impl ControlServer {
    /// Listens for requests. The socket of a kernel that no longer runs is replaced.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] when another kernel runs for this home,
    /// [`io::ErrorKind::PermissionDenied`] when the directory is not private to this user.
    pub fn bind(path: &Path) -> BoxFuture<'_, io::Result<Self>> {
        Box::pin(async move {
            if let Some(directory) = path.parent() {
                prepare_directory(directory)?;
            }
            // A kernel that accepts connections is alive; its socket must stay.
            if UnixStream::connect(path).await.is_ok() {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            Ok(Self { listener: UnixListener::bind(path)?, path: path.to_owned() })
        })
    }

    /// Serves requests until dropped. Connections that send none are limited in number and in time;
    /// further ones wait until then.
    pub fn serve(self, kernel: Kernel) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let silent_slots = Arc::new(Semaphore::new(MAX_SILENT_CONNECTIONS));
            let mut failures = 0;
            loop {
                // The semaphore is never closed.
                let Ok(permit) = Arc::clone(&silent_slots).acquire_owned().await else { return };
                match self.listener.accept().await {
                    Ok((stream, _)) => {
                        failures = 0;
                        let kernel = kernel.clone();
                        tokio::spawn(async move {
                            if let Err(error) = handle_connection(stream, &kernel, permit).await {
                                tracing::debug!(%error, "control connection ended early");
                            }
                        });
                    }
                    // For example too many open files. The client waits in the queue of the socket.
                    Err(error) => {
                        let wait = accept_backoff(failures);
                        failures += 1;
                        tracing::warn!(%error, ?wait, "control socket cannot accept; retrying");
                        tokio::time::sleep(wait).await;
                    }
                }
            }
        })
    }
}

/// Returns the pause after a number of failures in a row.
fn accept_backoff(failures: u32) -> Duration {
    ACCEPT_BACKOFF.saturating_mul(1 << failures.min(8)).min(MAX_ACCEPT_BACKOFF)
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        // A socket that cannot be removed is replaced by the next kernel.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn handle_connection(
    stream: UnixStream,
    kernel: &Kernel,
    silent_slots: OwnedSemaphorePermit,
) -> io::Result<()> {
    check_peer(&stream)?;
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let mut request = String::new();
    let limit = kernel.extensions().limits().control;
    with_timeout(limit, (&mut read).take(LINE_LIMIT).read_line(&mut request)).await?;
    // The limit is for connections without a request, so the slot is free from here on.
    drop(silent_slots);
    if !request.ends_with('\n') && (request.len() as u64) < LINE_LIMIT {
        // The client has disconnected and would treat an executed request as not executed.
        return Ok(());
    }
    let reply = match serde_json::from_str::<ControlRequest>(&request) {
        Ok(ControlRequest::Talk(message)) => {
            return talk::serve_messages(kernel, MessageRequest::Talk(message), read, write).await;
        }
        Ok(ControlRequest::Attach { thread }) => {
            return talk::serve_messages(kernel, MessageRequest::Attach { thread }, read, write)
                .await;
        }
        // A build is cancelled when its client disconnects; every other request is short.
        Ok(request @ ControlRequest::Build { .. }) => tokio::select! {
            () = wait_for_disconnect(&mut read) => return Ok(()),
            result = execute_request(kernel, request) => to_response(result),
        },
        Ok(request) => to_response(execute_request(kernel, request).await),
        Err(error) => ControlResponse::Failed(
            CallError::new(ErrorKind::Protocol, format!("request is not valid: {error}"))
                .with_hint(format!(
                    "restart `{}` if its version differs",
                    OperatorCommand::RunKernel
                )),
        ),
    };
    with_timeout(limit, write_line(&mut write, &reply)).await
}

fn to_response(result: Result<Box<RawValue>, KernelError>) -> ControlResponse {
    match result {
        Ok(value) => ControlResponse::Done(value),
        Err(error) => {
            let (kind, message, hint) = (error.kind(), error.to_string(), error.hint());
            ControlResponse::Failed(CallError { kind, message, hint })
        }
    }
}

/// Waits until the peer closes the connection.
async fn wait_for_disconnect(stream: &mut (impl AsyncRead + Unpin)) {
    let mut more = [0; 64];
    // A client sends a single request; further bytes are ignored.
    while stream.read(&mut more).await.is_ok_and(|read| read > 0) {}
}

/// Executes a request; returns the type that the request's documentation names, as JSON.
///
/// # Errors
/// The error of the kernel's own function.
pub fn execute_request(
    kernel: &Kernel,
    request: ControlRequest,
) -> BoxFuture<'_, Result<Box<RawValue>, KernelError>> {
    Box::pin(async move {
        match request {
            ControlRequest::Reload { id } => to_raw_json(&kernel.reload(&id).await?),
            ControlRequest::PreviewBuild { id } => {
                to_raw_json(&kernel.agents().preview_build(&id).await?)
            }
            ControlRequest::Build { id, sha256, surface } => {
                to_raw_json(&kernel.agents().build_extension(&id, &sha256, surface).await?)
            }
            ControlRequest::RollBack { id } => {
                to_raw_json(&kernel.agents().rollback_extension(&id).await?)
            }
            ControlRequest::Turn { agent, prompt } => {
                let turn = TurnRequest { agent: Some(agent), prompt, ..TurnRequest::default() };
                to_raw_json(&kernel.agents().compose_turn(&turn).await?)
            }
            ControlRequest::InvokeFor { agent, tool, arguments } => {
                to_raw_json(&kernel.agents().invoke_for_agent(&agent, &tool, &arguments).await?)
            }
            ControlRequest::Invoke { context, tool, arguments } => {
                to_raw_json(&kernel.agents().invoke_tool(*context, &tool, &arguments).await?)
            }
            ControlRequest::ExplainCall { context, tool, arguments } => {
                to_raw_json(&kernel.agents().explain_call(*context, &tool, &arguments).await?)
            }
            ControlRequest::Tools { agent } => {
                to_raw_json(&answers::list_tools(kernel, agent.as_deref()).await?)
            }
            ControlRequest::Agents => to_raw_json(&answers::list_agents(kernel).await?),
            ControlRequest::Agent { id } => {
                to_raw_json(&answers::describe_agent(kernel, &id).await?)
            }
            ControlRequest::Activate { thread, skill } => {
                let (_alone, mut thread) = open_unused_thread(kernel, thread).await?;
                let active = kernel.agents().activate_skill(&mut thread, &skill).await;
                to_raw_json(&active.map_err(CallError::from)?)
            }
            ControlRequest::Compact { thread, model } => {
                // A parked run that is decided about now waits for the end, as the thread is open.
                let (_alone, mut thread) = open_unused_thread(kernel, thread).await?;
                let outcome = kernel.agents().compact_thread(&mut thread, model).await;
                to_raw_json(&outcome.map_err(CallError::from)?)
            }
            ControlRequest::Talk(_) | ControlRequest::Attach { .. } => {
                let message = "request requires a message connection";
                Err(CallError::new(ErrorKind::InvalidArgument, message).into())
            }
            ControlRequest::Decide(decision) => {
                let (questions, reviews) = (kernel.questions(), kernel.reviews());
                to_raw_json(&questions.decide_for_operator(decision, SURFACE, reviews).await?)
            }
            ControlRequest::PrepareTask { target, input } => {
                to_raw_json(&kernel.tasks().prepare_task(&target, &input).await?)
            }
            ControlRequest::Report => to_raw_json(&*kernel.report()),
            ControlRequest::Status => to_raw_json(&kernel.status().await),
            ControlRequest::Notices => to_raw_json(&kernel.current_notices().await),
            ControlRequest::Stop => {
                kernel.request_stop();
                to_raw_json(&StopOutcome { pid: std::process::id() })
            }
            ControlRequest::Diagnose => to_raw_json(&answers::diagnose_extensions(kernel).await),
            ControlRequest::OpenConsole => {
                to_raw_json(&kernel.console()?.open(kernel.clone()).await?)
            }
            ControlRequest::Schedules => to_raw_json(&kernel.list_schedules().await),
            ControlRequest::RunSchedule { id } => to_raw_json(&kernel.run_schedule(&id).await?),
        }
    })
}

fn to_raw_json<T: Serialize>(value: &T) -> Result<Box<RawValue>, KernelError> {
    serde_json::value::to_raw_value(value).map_err(|error| CallError::protocol_error(&error).into())
}

/// Opens a thread for a change by a client. A run that starts during the change waits for its end; if
/// one has the thread already, the change fails at once.
async fn open_unused_thread(
    kernel: &Kernel,
    id: String,
) -> Result<(OwnedMutexGuard<()>, Thread), CallError> {
    let opened = match kernel.message_channels().threads.try_lock(&id) {
        Some(alone) => open_thread(kernel.home(), &id).await?.map(|thread| (alone, thread)),
        None => Err(ThreadError::Busy { id }),
    };
    opened.map_err(|error| CallError::from(RunError::from(error)))
}
