//! The launcher on systems without isolation: it refuses every run.

use std::io;
use std::path::PathBuf;

use skillhost_policy::SandboxPolicy;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use crate::isolation::{EndCause, IsolationReport, RefusalKind, RunEnd, SandboxRefusal};
use crate::machine::{IsolationGap, MachineIsolation};
use crate::sandbox_spec::{SandboxError, SandboxSpec, SandboxedExit};

/// The launcher: on this system, it refuses every run.
#[derive(Debug, Clone, Default)]
pub struct SandboxLauncher;

/// A running program, of which there is none on this system.
#[derive(Debug)]
pub struct SandboxedChild {
    /// The isolation that was reached.
    pub isolation: IsolationReport,
    /// The standard input, if it is a pipe.
    pub stdin: Option<ChildStdin>,
    /// The standard output, until it is taken.
    pub stdout: Option<ChildStdout>,
    /// The standard error, until it is taken.
    pub stderr: Option<ChildStderr>,
    end: RunEnd,
}

impl SandboxLauncher {
    /// Returns a launcher that is another program.
    #[must_use]
    pub fn from_program(_: PathBuf) -> Self {
        Self
    }

    /// Refuses to start a program.
    ///
    /// # Errors
    /// [`SandboxError::Refused`], always.
    pub async fn spawn(&self, _: SandboxSpec) -> Result<SandboxedChild, SandboxError> {
        Err(refusal().into())
    }

    /// Refuses to run a program.
    ///
    /// # Errors
    /// [`SandboxError::Refused`], always.
    pub async fn run(&self, _: SandboxSpec) -> Result<SandboxedExit, SandboxError> {
        Err(refusal().into())
    }

    /// Refuses to run a program.
    ///
    /// # Errors
    /// [`SandboxError::Refused`], always.
    pub async fn run_with_input(
        &self,
        _: SandboxSpec,
        _: Option<std::fs::File>,
    ) -> Result<SandboxedExit, SandboxError> {
        Err(refusal().into())
    }

    /// Returns the refusal of every run.
    ///
    /// # Errors
    /// [`SandboxRefusal`], always.
    pub fn probe(&self, _: &SandboxPolicy) -> Result<IsolationReport, SandboxRefusal> {
        Err(refusal())
    }

    /// Describes a machine without isolation.
    #[must_use]
    pub fn describe_machine(&self) -> MachineIsolation {
        let SandboxRefusal { message, hint, .. } = refusal();
        MachineIsolation {
            kernel: std::env::consts::OS.to_owned(),
            landlock_abi: 0,
            levels: Vec::new(),
            gaps: vec![IsolationGap { level: None, finding: message, remedy: hint }],
        }
    }
}

impl SandboxedChild {
    /// Returns the end of the program.
    ///
    /// # Errors
    /// None on this system.
    pub async fn wait(&mut self) -> io::Result<RunEnd> {
        Ok(self.end.clone())
    }

    /// Ends the run.
    ///
    /// # Errors
    /// None on this system.
    pub fn cancel(&self, _: Option<EndCause>) -> io::Result<()> {
        Ok(())
    }

    /// Sends SIGTERM to the program.
    ///
    /// # Errors
    /// None on this system.
    pub fn terminate(&self) -> io::Result<()> {
        Ok(())
    }

    /// Returns the process id of the launcher.
    #[must_use]
    pub fn launcher_id(&self) -> Option<u32> {
        None
    }
}

fn refusal() -> SandboxRefusal {
    let message = format!("no isolation level exists on {}", std::env::consts::OS);
    let hint = "run it on Linux, in a virtual machine or a container";
    SandboxRefusal::new(RefusalKind::Isolation, "", message, hint)
}
