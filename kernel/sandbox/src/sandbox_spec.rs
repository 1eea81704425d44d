//! A program to run in isolation, and the result of its run.

use std::io;
#[cfg(unix)]
use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};
use skillhost_policy::{IsolationLevel, SandboxPolicy};

use crate::isolation::{IsolationReport, RunEnd, SandboxRefusal};
use crate::launch::LaunchSpec;

/// A program to run in isolation.
pub struct SandboxSpec {
    /// The program.
    pub launch: LaunchSpec,
    /// Its permissions and limits.
    pub policy: SandboxPolicy,
    /// Its standard input.
    pub stdin: InputMode,
    /// The descriptor that it gets as descriptor 3.
    pub channel: Option<OwnedFd>,
    /// The isolation levels to try.
    pub levels: LevelSelection,
}

/// The standard input of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputMode {
    /// Empty.
    Null,
    /// A pipe of the caller.
    Pipe,
}

/// The isolation levels that may be used, the strongest first.
#[derive(Debug, Clone)]
pub struct LevelSelection {
    /// The levels.
    pub levels: Vec<IsolationLevel>,
    /// The version of Landlock to assume if the kernel has a newer one.
    pub landlock_abi: Option<i32>,
}

impl Default for LevelSelection {
    fn default() -> Self {
        let levels = vec![IsolationLevel::Namespaces, IsolationLevel::Landlock];
        Self { levels, landlock_abi: None }
    }
}

/// The reason why a program was not run, or its end is not known.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The launcher refused to run it.
    #[error(transparent)]
    Refused(#[from] SandboxRefusal),
    /// The launcher failed.
    #[error("the sandbox launcher failed: {0}")]
    Launcher(#[from] io::Error),
}

/// The result of a program that has run to its end.
#[derive(Debug)]
pub struct SandboxedExit {
    /// The isolation of the run.
    pub isolation: IsolationReport,
    /// The end.
    pub end: RunEnd,
    /// The standard output up to the limit.
    pub stdout: Vec<u8>,
    /// The standard error up to the limit.
    pub stderr: Vec<u8>,
}
