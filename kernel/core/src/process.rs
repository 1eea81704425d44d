//! The kernel's interface to process extensions.
//!
//! Implementations of [`ProcessLauncher`] start processes, communicate with them and stop them.

mod load;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use skillhost_home::Home;
use skillhost_manifest::ExtensionId;
use skillhost_payload::{CallContext, CallError, ErrorKind, ToolOutput, ToolSpec};

/// Returns the home directory of a process extension: its caches outlive the process.
#[must_use]
pub fn process_home(home: &Home, id: &str) -> PathBuf {
    home.data_dir("kernel").join("homes").join(id)
}

/// A running process extension. It restarts its process after an unexpected exit.
#[async_trait]
pub trait ProcessExtension: Send + Sync {
    /// Returns the version that the process reported; empty if it reported none.
    fn version(&self) -> String;

    /// Returns its tools, as listed at its start.
    ///
    /// # Errors
    /// [`CallError`] if the process does not reply, or its reply is not valid.
    async fn tools(&self) -> Result<Vec<ToolSpec>, CallError>;

    /// Calls a tool with arguments as JSON text. Dropping the future cancels the call: the process
    /// is notified and, if it then sends no further reply, killed and restarted.
    ///
    /// # Errors
    /// [`CallError`]; of the kind [`ErrorKind::Unavailable`](skillhost_payload::ErrorKind) while there is no
    /// process.
    async fn invoke(
        &self,
        context: &CallContext,
        name: &str,
        arguments: &str,
    ) -> Result<ToolOutput, CallError>;

    /// Checks that the process runs and replies.
    ///
    /// # Errors
    /// [`CallError`] with the start and the cause of the outage.
    async fn health(&self) -> Result<(), CallError>;

    /// Stops the process and all of its children, within [`ProcessSpec::stop`].
    async fn stop(&self);
}

/// A launcher of process extensions.
#[async_trait]
pub trait ProcessLauncher: Send + Sync {
    /// Starts a process and waits for its handshake, at most [`ProcessSpec::handshake`].
    ///
    /// # Errors
    /// [`CallError`]; then none of its processes is running.
    async fn start(&self, start: ProcessSpec) -> Result<Arc<dyn ProcessExtension>, CallError>;
}

/// The program, environment and limits of a process.
#[derive(Clone)]
pub struct ProcessSpec {
    /// The extension.
    pub id: ExtensionId,
    /// The program's file.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its working directory: a private copy of the files that were approved.
    pub folder: PathBuf,
    /// The file for its process id.
    pub note: PathBuf,
    /// Its complete environment; contains secrets.
    pub environment: BTreeMap<String, String>,
    /// Timeout of the handshake and the list of its tools.
    pub handshake: Duration,
    /// Timeout of any reply after a cancelled call; then it is killed.
    pub grace: Duration,
    /// Timeout of its exit; then it is killed.
    pub stop: Duration,
    /// The limit of its data in bytes, on systems that support one.
    pub memory: u64,
}

impl fmt::Debug for ProcessSpec {
    /// Omits the values of the environment.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessSpec")
            .field("id", &self.id)
            .field("program", &self.program)
            .field("arguments", &self.arguments)
            .field("folder", &self.folder)
            .field("environment", &self.environment.keys())
            .finish_non_exhaustive()
    }
}

/// A launcher that starts no processes.
pub struct NoProcesses;

#[async_trait]
impl ProcessLauncher for NoProcesses {
    async fn start(&self, _: ProcessSpec) -> Result<Arc<dyn ProcessExtension>, CallError> {
        Err(CallError::new(ErrorKind::Unavailable, "this kernel cannot start processes"))
    }
}
