//! A program with its arguments, its directory and its complete environment.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

/// A program to start. It inherits no variable of this process.
///
/// The environment may contain secrets, so there is no `Debug`.
#[derive(Clone)]
pub struct LaunchSpec {
    /// The program's file, or its name in the `PATH` of the environment.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its complete environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// Its working directory.
    pub folder: PathBuf,
}

impl LaunchSpec {
    /// Returns the command, with its output in pipes and in a process group of its own.
    pub(crate) fn to_command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .current_dir(&self.folder)
            .env_clear()
            .envs(&self.environment)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        command
    }
}

/// An error of running a program.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The program could not be started.
    #[error("{program} failed to start: {source}")]
    Start {
        /// The name of the program.
        program: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The program exceeded its time limit and was ended.
    #[error("timed out after {} ms", limit.as_millis())]
    TimedOut {
        /// The time limit.
        limit: Duration,
    },
}
