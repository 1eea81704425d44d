//! Supervision of a process extension across crashes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use skillhost_control::{ExitCause, RestartBackoff, RestartDecision};
use skillhost_payload::{CallContext, CallError, ErrorKind, OperatorCommand, ToolOutput, ToolSpec};
use skillhost_sandbox::IsolationReport;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::error::call_error;
use crate::running::{ProcessConnection, RunningProcess};
use crate::spec::ProcessSpec;

/// A process extension whose process is restarted after a crash.
pub struct SupervisedProcess {
    id: String,
    /// The tools of the first process, from which the kernel has made its tool table.
    tools: Vec<ToolSpec>,
    version: String,
    isolation: IsolationReport,
    state: Arc<Mutex<ProcessState>>,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
    /// Stops the process when the extension is dropped without a stop.
    _stop_when_dropped: DropGuard,
}

/// The state of the process of an extension.
#[derive(Clone)]
enum ProcessState {
    /// The process runs.
    Up(Arc<ProcessConnection>),
    /// The process has exited and is restarted after a delay.
    Down { why: String, wait: Duration },
    /// The process has crashed too often.
    RestartLimit { why: String, crashes: usize },
    /// The extension was stopped.
    Stopped,
}

impl SupervisedProcess {
    /// Starts the first process.
    ///
    /// # Errors
    /// The errors of [`RunningProcess::start`]; a failed first start is not retried.
    pub(crate) async fn start(
        start: ProcessSpec,
        backoff: RestartBackoff,
    ) -> Result<Self, CallError> {
        let running = RunningProcess::start(&start).await?;
        let connection = Arc::clone(&running.connection);
        let state = Arc::new(Mutex::new(ProcessState::Up(Arc::clone(&connection))));
        let stop = CancellationToken::new();
        let id = start.id.to_string();
        let supervision =
            SupervisionLoop { start, state: Arc::clone(&state), stop: stop.clone(), backoff };
        let task = tokio::spawn(supervision.run(running));
        Ok(Self {
            id,
            tools: connection.tools.clone(),
            version: connection.version.clone(),
            isolation: connection.isolation.clone(),
            state,
            stop: stop.clone(),
            task: Mutex::new(Some(task)),
            _stop_when_dropped: stop.drop_guard(),
        })
    }

    /// Returns the connection to the running process.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] with the reason and a hint while no process runs.
    fn connection(&self) -> Result<Arc<ProcessConnection>, CallError> {
        let id = &self.id;
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (message, hint) = match state {
            ProcessState::Up(connection) => return Ok(connection),
            ProcessState::Down { why, wait } => (
                format!("the process of `{id}` {why}"),
                format!("retry after {} ms; the process is restarted then", wait.as_millis()),
            ),
            ProcessState::RestartLimit { why, crashes } => (
                format!(
                    "the process of `{id}` crashed {crashes} times and reached the restart limit; \
                     the last time it {why}"
                ),
                format!(
                    "correct it, then: {} and {}",
                    OperatorCommand::BuildExtension { id },
                    OperatorCommand::ReloadExtension { id }
                ),
            ),
            ProcessState::Stopped => (format!("`{id}` has stopped"), String::new()),
        };
        Err(CallError { kind: ErrorKind::Unavailable, message, hint })
    }
}

impl SupervisedProcess {
    /// Returns the version that the process reported; empty if it reported none.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the isolation of the first process. Later ones require the same at least.
    #[must_use]
    pub fn isolation(&self) -> &IsolationReport {
        &self.isolation
    }

    /// Returns its tools, as listed at its start.
    #[must_use]
    pub fn tools(&self) -> &[ToolSpec] {
        &self.tools
    }

    /// Calls a tool with arguments as JSON text. Dropping the future cancels the call: the process is
    /// notified and, if it then sends no further reply, killed and restarted.
    ///
    /// # Errors
    /// [`CallError`]; of the kind [`ErrorKind::Unavailable`] while there is no process.
    pub async fn invoke(
        &self,
        context: &CallContext,
        name: &str,
        arguments: &str,
    ) -> Result<ToolOutput, CallError> {
        let arguments = serde_json::from_str(arguments).map_err(|e| {
            let message = format!("arguments are not a valid JSON object: {e}");
            call_error(ErrorKind::InvalidArgument, message)
        })?;
        self.connection()?.call(context, name, arguments).await
    }

    /// Sends a request of the kernel's own protocol; returns its result.
    ///
    /// # Errors
    /// The error of the process; [`ErrorKind::Unavailable`] while there is no process.
    pub(crate) async fn request(&self, method: &str, params: Value) -> Result<Value, CallError> {
        self.connection()?.request(method, params).await
    }

    /// Checks that the process runs and replies.
    ///
    /// # Errors
    /// [`CallError`] with the start and the cause of the outage.
    pub async fn health(&self) -> Result<(), CallError> {
        self.connection()?.health().await
    }

    /// Stops the process and all of its children, within [`ProcessSpec::stop`].
    pub async fn stop(&self) {
        self.stop.cancel();
        // The lock must not be held across the `await`; a second stop finds no task.
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            // The task fails only by a panic, and the process is killed on its drop then.
            let _ = task.await;
        }
    }
}

/// The task that restarts a process until it is stopped or reaches the restart limit.
struct SupervisionLoop {
    start: ProcessSpec,
    state: Arc<Mutex<ProcessState>>,
    stop: CancellationToken,
    backoff: RestartBackoff,
}

impl SupervisionLoop {
    async fn run(mut self, mut running: RunningProcess) {
        // Exits are counted in a time window, which is measured from the first start.
        let started = Instant::now();
        loop {
            let exit = tokio::select! {
                why = running.wait_until_exited() => Some(why),
                () = self.stop.cancelled() => None,
            };
            let Some(why) = exit else {
                // Set first, so that no call starts during the shutdown.
                self.set_state(ProcessState::Stopped);
                running.shutdown(self.start.stop).await;
                return;
            };
            // The old process and its group must be gone before the next one starts.
            drop(running);
            running = match self.restart(why, started).await {
                Some(next) => next,
                None => return,
            };
            tracing::info!(id = %self.start.id, "process restarted");
            self.set_state(ProcessState::Up(Arc::clone(&running.connection)));
        }
    }

    /// Restarts the process within the restart limit; returns `None` once the extension is stopped.
    async fn restart(&mut self, mut why: String, started: Instant) -> Option<RunningProcess> {
        let stop = self.stop.clone();
        loop {
            let id = &self.start.id;
            match self.backoff.record_exit(ExitCause::Crashed, started.elapsed()) {
                RestartDecision::Stop(crashes) => {
                    tracing::error!(%id, why, crashes, "restart limit reached");
                    self.set_state(ProcessState::RestartLimit { why, crashes });
                    // Calls report the restart limit until the extension is stopped or reloaded.
                    stop.cancelled().await;
                    self.set_state(ProcessState::Stopped);
                    return None;
                }
                RestartDecision::Restart(wait) => {
                    tracing::warn!(%id, why, ?wait, "process exited; restart scheduled");
                    self.set_state(ProcessState::Down { why, wait });
                    let next = async {
                        tokio::time::sleep(wait).await;
                        RunningProcess::start(&self.start).await
                    };
                    // A start that is dropped before its end kills its process.
                    let next = tokio::select! {
                        next = next => next,
                        () = stop.cancelled() => {
                            self.set_state(ProcessState::Stopped);
                            return None;
                        }
                    };
                    match next {
                        Ok(running) => return Some(running),
                        // A failed start counts as a crash, so that it cannot loop without end.
                        Err(failed) => why = failed.message,
                    }
                }
            }
        }
    }

    fn set_state(&self, state: ProcessState) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}
