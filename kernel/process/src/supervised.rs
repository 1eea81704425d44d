//! What lives on when a process crashes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use skillhost_kernel::supervision::{ExitCause, RestartBackoff, RestartDecision};
use skillhost_kernel::{
    CallContext, CallError, ErrorKind, ProcessExtension, ProcessSpec, ToolOutput, ToolSpec,
};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::error;
use crate::running::{ProcessConnection, RunningProcess};

/// A process extension: one process after the other.
pub(crate) struct SupervisedProcess {
    id: String,
    /// What the first process said: the kernel's tables were made from it.
    tools: Vec<ToolSpec>,
    version: String,
    state: Arc<Mutex<ProcessState>>,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
    /// Who drops the extension without ending it ends it.
    _stop_when_dropped: DropGuard,
}

/// Whether there is a process, and if not why.
#[derive(Clone)]
enum ProcessState {
    Up(Arc<ProcessConnection>),
    /// It ended and is started again after a while.
    Down {
        why: String,
        wait: Duration,
    },
    /// It ended too often.
    GivenUp {
        why: String,
        crashes: usize,
    },
    Stopped,
}

impl SupervisedProcess {
    /// Starts the first process.
    ///
    /// # Errors
    /// As for [`RunningKernel::start`]: the first one is not tried again.
    pub(crate) async fn start(
        start: ProcessSpec,
        backoff: RestartBackoff,
    ) -> Result<Self, CallError> {
        let running = RunningProcess::start(&start).await?;
        let connection = Arc::clone(&running.connection);
        let state = Arc::new(Mutex::new(ProcessState::Up(Arc::clone(&connection))));
        let stop = CancellationToken::new();
        let id = start.id.to_string();
        let keeper =
            SupervisionLoop { start, state: Arc::clone(&state), stop: stop.clone(), backoff };
        let task = tokio::spawn(keeper.run(running));
        Ok(Self {
            id,
            tools: connection.tools.clone(),
            version: connection.version.clone(),
            state,
            stop: stop.clone(),
            task: Mutex::new(Some(task)),
            _stop_when_dropped: stop.drop_guard(),
        })
    }

    fn connection(&self) -> Result<Arc<ProcessConnection>, CallError> {
        let id = &self.id;
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (message, hint) = match state {
            ProcessState::Up(connection) => return Ok(connection),
            ProcessState::Down { why, wait } => (
                format!("the process of `{id}` {why}"),
                format!("it is started again {} ms after that; try later", wait.as_millis()),
            ),
            ProcessState::GivenUp { why, crashes } => (
                format!(
                    "the process of `{id}` crashed {crashes} times in a short while and is not \
                     started again; the last time it {why}"
                ),
                format!("correct it, then: skillhost ext build {id} and skillhost ext reload {id}"),
            ),
            ProcessState::Stopped => (format!("`{id}` has ended"), String::new()),
        };
        Err(CallError { kind: ErrorKind::Unavailable, message, hint })
    }
}

#[async_trait]
impl ProcessExtension for SupervisedProcess {
    fn version(&self) -> String {
        self.version.clone()
    }

    async fn tools(&self) -> Result<Vec<ToolSpec>, CallError> {
        Ok(self.tools.clone())
    }

    async fn invoke(
        &self,
        _: &CallContext,
        name: &str,
        arguments: &str,
    ) -> Result<ToolOutput, CallError> {
        let arguments = serde_json::from_str(arguments).map_err(|e| {
            error(ErrorKind::InvalidArgument, format!("the arguments are no JSON object: {e}"))
        })?;
        self.connection()?.call(name, arguments).await
    }

    async fn health(&self) -> Result<(), CallError> {
        self.connection()?.health().await
    }

    async fn stop(&self) {
        self.stop.cancel();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            let _ = task.await;
        }
    }
}

/// Keeps a process running until it is told to stop, or it crashes too often.
struct SupervisionLoop {
    start: ProcessSpec,
    state: Arc<Mutex<ProcessState>>,
    stop: CancellationToken,
    backoff: RestartBackoff,
}

impl SupervisionLoop {
    async fn run(mut self, mut running: RunningProcess) {
        let began = Instant::now();
        loop {
            let over = tokio::select! {
                why = running.wait_until_exited() => Some(why),
                () = self.stop.cancelled() => None,
            };
            let Some(why) = over else {
                self.set(ProcessState::Stopped);
                running.shutdown(self.start.stop).await;
                return;
            };
            drop(running);
            running = match self.restart(why, began).await {
                Some(next) => next,
                None => return,
            };
            tracing::info!(id = %self.start.id, "its process runs again");
            self.set(ProcessState::Up(Arc::clone(&running.connection)));
        }
    }

    /// Starts the next process, as often as the rules allow; nothing when that is over.
    async fn restart(&mut self, mut why: String, began: Instant) -> Option<RunningProcess> {
        let stop = self.stop.clone();
        loop {
            let id = &self.start.id;
            match self.backoff.record_exit(ExitCause::Crashed, began.elapsed()) {
                RestartDecision::Stop(crashes) => {
                    tracing::error!(%id, why, crashes, "its process crashed too often; given up");
                    self.set(ProcessState::GivenUp { why, crashes });
                    stop.cancelled().await;
                    self.set(ProcessState::Stopped);
                    return None;
                }
                RestartDecision::Restart(wait) => {
                    tracing::warn!(%id, why, ?wait, "its process is over and is started again");
                    self.set(ProcessState::Down { why, wait });
                    let next = async {
                        tokio::time::sleep(wait).await;
                        RunningProcess::start(&self.start).await
                    };
                    // Dropped in the middle of its start, a process is killed.
                    let next = tokio::select! {
                        next = next => next,
                        () = stop.cancelled() => {
                            self.set(ProcessState::Stopped);
                            return None;
                        }
                    };
                    match next {
                        Ok(running) => return Some(running),
                        Err(failed) => why = failed.message,
                    }
                }
            }
        }
    }

    fn set(&self, state: ProcessState) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}
