//! The description of a process to start.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use skillhost_manifest::ExtensionId;
use skillhost_sandbox::ChildContainment;

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
    /// Its complete environment; contains secrets.
    pub environment: BTreeMap<String, String>,
    /// Timeout of the handshake and the list of its tools.
    pub handshake: Duration,
    /// Timeout of any reply after a cancelled call; then it is killed.
    pub grace: Duration,
    /// Timeout of its exit; then it is killed.
    pub stop: Duration,
    /// Whether and how it is isolated.
    pub containment: ChildContainment,
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
            .field("containment", &self.containment)
            .finish_non_exhaustive()
    }
}
