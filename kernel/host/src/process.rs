//! What the kernel knows of process extensions: what may be started, and what it answers.
//!
//! How a process is started, spoken to and ended is the business of whoever implements
//! [`ProcessLauncher`].

mod load;
mod orphans;
mod private;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use skillhost_contract::payload::{CallContext, ErrorKind, ToolOutput, ToolSpec};
use skillhost_manifest::ExtensionId;

use crate::error::CallError;
use crate::home::Home;

pub(crate) use load::copies_of;
pub(crate) use private::PrivateDirectory;

/// The home directory of a process extension: its caches outlive the process.
#[must_use]
pub fn process_home(home: &Home, id: &str) -> PathBuf {
    home.data_dir("kernel").join("homes").join(id)
}

/// A running process extension. It starts its process again by itself when that ends unasked.
#[async_trait]
pub trait ProcessExtension: Send + Sync {
    /// The version the process gave itself; empty where it gave none.
    fn version(&self) -> String;

    /// Its tools, as they were when it was started.
    ///
    /// # Errors
    /// [`CallError`] where the process does not answer, or not with what it should.
    async fn tools(&self) -> Result<Vec<ToolSpec>, CallError>;

    /// Calls a tool with arguments as JSON text. Dropping the future gives the call up: the process
    /// is told so and, if it then answers nothing more, killed and started again.
    ///
    /// # Errors
    /// [`CallError`]; of the kind [`ErrorKind::Unavailable`](crate::ErrorKind) while there is no
    /// process.
    async fn invoke(
        &self,
        context: &CallContext,
        name: &str,
        arguments: &str,
    ) -> Result<ToolOutput, CallError>;

    /// Whether the process runs and answers.
    ///
    /// # Errors
    /// [`CallError`] saying since when it does not, and why.
    async fn health(&self) -> Result<(), CallError>;

    /// Ends the process and everything it has started, within [`ProcessSpec::stop`].
    async fn stop(&self);
}

/// What starts process extensions.
#[async_trait]
pub trait ProcessLauncher: Send + Sync {
    /// Starts a process and waits until it has answered the handshake, at most
    /// [`ProcessSpec::handshake`].
    ///
    /// # Errors
    /// [`CallError`]; then nothing of it runs any more.
    async fn start(&self, start: ProcessSpec) -> Result<Arc<dyn ProcessExtension>, CallError>;
}

/// Which process to start, and how.
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
    /// Where its number is noted.
    pub note: PathBuf,
    /// Its whole environment; holds secrets.
    pub environment: BTreeMap<String, String>,
    /// Until it has answered the handshake and listed its tools.
    pub handshake: Duration,
    /// Until it answers anything again after a call was given up; then it is killed.
    pub grace: Duration,
    /// Until it has ended by itself; then it is killed.
    pub stop: Duration,
    /// Bytes of memory it may have for its data, where the system can limit that.
    pub memory: u64,
}

impl ProcessSpec {
    /// Notes the process that was started: should this kernel be killed, a later one ends it.
    ///
    /// # Errors
    /// The system's error; the process then is as good as any other.
    pub fn record_pid(&self, pid: u32) -> io::Result<()> {
        orphans::record_pid(&self.note, pid)
    }
}

impl fmt::Debug for ProcessSpec {
    /// Leaves the values of the environment out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessStart")
            .field("id", &self.id)
            .field("program", &self.program)
            .field("arguments", &self.arguments)
            .field("folder", &self.folder)
            .field("environment", &self.environment.keys())
            .finish_non_exhaustive()
    }
}

/// A source that starts nothing.
pub(crate) struct NoProcesses;

#[async_trait]
impl ProcessLauncher for NoProcesses {
    async fn start(&self, _: ProcessSpec) -> Result<Arc<dyn ProcessExtension>, CallError> {
        Err(CallError::new(ErrorKind::Unavailable, "this kernel starts no processes"))
    }
}
