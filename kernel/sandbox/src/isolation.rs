//! The isolation that a run has reached, or the reason why it was refused.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use skillhost_broker::HostContact;
use skillhost_policy::{Guarantee, IsolationLevel};

/// The isolation of one run. Part of every result and approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsolationReport {
    /// The level.
    pub level: IsolationLevel,
    /// The version of Landlock in the kernel; 0 if there is none.
    pub landlock_abi: i32,
    /// Whether a control group keeps the limits.
    pub cgroup: bool,
    /// The guarantees that the level does not have on this machine.
    pub missing: Vec<Guarantee>,
    /// The stronger levels that failed before.
    pub tried: Vec<FailedLevel>,
}

impl IsolationReport {
    /// Returns whether anything is guaranteed.
    #[must_use]
    pub fn is_contained(&self) -> bool {
        self.level != IsolationLevel::None
    }

    /// Returns the report of a plain child, which has no guarantee.
    #[must_use]
    pub fn uncontained() -> Self {
        Self {
            level: IsolationLevel::None,
            landlock_abi: 0,
            cgroup: false,
            missing: Guarantee::ALL.to_vec(),
            tried: Vec::new(),
        }
    }
}

/// A level that could not be reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedLevel {
    /// The level.
    pub level: IsolationLevel,
    /// The step that failed, such as `mounts: proc`.
    pub step: String,
    /// The error of the operating system.
    pub error: String,
}

/// The kind of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// The policy is not valid or names a path that cannot be used.
    Policy,
    /// No level has the required guarantees.
    Isolation,
    /// The program could not be started.
    Start,
}

/// The reason why nothing was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{}", self.describe())]
pub struct SandboxRefusal {
    /// The kind.
    pub kind: RefusalKind,
    /// The step that failed.
    pub step: String,
    /// The error.
    pub message: String,
    /// The remedy; empty if none is known.
    pub hint: String,
    /// The levels that failed, if the kind is [`RefusalKind::Isolation`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<FailedLevel>,
}

impl SandboxRefusal {
    /// Returns a refusal that no other level would avoid.
    pub(crate) fn new(kind: RefusalKind, step: &str, message: String, hint: &str) -> Self {
        let (step, hint) = (step.to_owned(), hint.to_owned());
        Self { kind, step, message, hint, tried: Vec::new() }
    }

    fn describe(&self) -> String {
        let mut text = String::new();
        if !self.step.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{}: ", self.step);
        }
        text.push_str(&self.message);
        text
    }
}

/// The limit, or the caller, that ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// The time limit.
    Time,
    /// The limit of memory.
    Memory,
    /// The limit of processes and threads.
    Tasks,
    /// The limit of bytes or files in the writable directories.
    Disk,
    /// The limit of output.
    Output,
    /// The caller.
    Cancelled,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    /// The exit code; `None` if a signal ended the program.
    pub exit_code: Option<i32>,
    /// The signal that ended the program.
    pub signal: Option<i32>,
    /// The limit that was exceeded, or the caller.
    pub ended_by: Option<EndCause>,
    /// The number of processes that the program left behind; they were ended.
    pub left_over: usize,
    /// The time from the start of the program, in milliseconds.
    pub ms: u64,
    /// The highest measured memory, in KiB.
    pub peak_kib: u64,
    /// The files with protected names that the run created, changed or moved, and what was done
    /// about them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reverted: Vec<RevertedFile>,
    /// The number of further ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_reverted: usize,
    /// The hosts that the program has contacted, if the policy allows any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostContact>,
}

/// The signal of a file that is too large.
const SIGXFSZ: i32 = 25;

impl RunEnd {
    /// Describes the end as a predicate without a subject: an exit, a signal, or the limit that was
    /// exceeded, with its name in a policy.
    #[must_use]
    pub fn describe(&self) -> String {
        let limit = match self.ended_by {
            None | Some(EndCause::Cancelled) => return describe_code(self.exit_code, self.signal),
            Some(EndCause::Time) => "its limit of time (`seconds`)",
            Some(EndCause::Memory) => "its limit of memory (`memoryMib`)",
            Some(EndCause::Tasks) => "its limit of processes and threads (`tasks`)",
            Some(EndCause::Disk) if self.signal == Some(SIGXFSZ) => {
                "its limit of a file (`fileMib`)"
            }
            Some(EndCause::Disk) => "a limit of disk usage (`diskMib` or `files`)",
            Some(EndCause::Output) => "its limit of output (`outputKib`)",
        };
        format!("was ended because it exceeded {limit}")
    }
}

/// Describes an exit code or a signal as a predicate without a subject.
pub(crate) fn describe_code(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// A file with a protected name that a run created, changed or moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevertedFile {
    /// The path.
    pub path: String,
    /// What was done.
    pub action: RevertAction,
    /// The path before, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// What was done about a file with a protected name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevertAction {
    /// A new file was removed.
    Removed,
    /// The former content was restored.
    Restored,
    /// It was moved with its directory, and remains there.
    Moved,
    /// It was moved back.
    MovedBack,
    /// It was renamed, to a name that ends with `.set-aside-N`.
    SetAside,
    /// It could neither be removed nor restored.
    Failed,
}

impl std::fmt::Display for RevertedFile {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let action = match self.action {
            RevertAction::Removed => "removed",
            RevertAction::Restored => "restored",
            RevertAction::Moved => "left as moved",
            RevertAction::MovedBack => "moved back",
            RevertAction::SetAside => "renamed to *.set-aside-N",
            RevertAction::Failed => "NOT reverted",
        };
        write!(out, "{action}: {}", self.path)?;
        match &self.from {
            Some(from) => write!(out, " (from {from})"),
            None => Ok(()),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(exit_code: Option<i32>, signal: Option<i32>, cause: Option<EndCause>) -> String {
        let end = RunEnd {
            exit_code,
            signal,
            ended_by: cause,
            left_over: 0,
            ms: 0,
            peak_kib: 0,
            reverted: Vec::new(),
            more_reverted: 0,
            hosts: Vec::new(),
        };
        end.describe()
    }

    #[test]
    fn end_names_exit_or_limit() {
        assert_eq!(describe(Some(3), None, None), "ended with exit code 3");
        assert_eq!(describe(None, Some(9), Some(EndCause::Cancelled)), "was ended by signal 9");
        assert_eq!(describe(None, None, None), "ended");
        let exceeded = |limit: &str| format!("was ended because it exceeded {limit}");
        assert_eq!(
            describe(None, Some(9), Some(EndCause::Memory)),
            exceeded("its limit of memory (`memoryMib`)")
        );
        assert_eq!(
            describe(None, Some(SIGXFSZ), Some(EndCause::Disk)),
            exceeded("its limit of a file (`fileMib`)")
        );
        assert_eq!(
            describe(None, Some(9), Some(EndCause::Disk)),
            exceeded("a limit of disk usage (`diskMib` or `files`)")
        );
    }
}
