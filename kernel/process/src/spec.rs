//! The description of a process to start.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use skillhost_manifest::ExtensionId;

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
