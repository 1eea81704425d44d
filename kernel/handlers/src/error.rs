//! Errors of calls of programs.

use std::time::Duration;

use skillhost_payload::{CallError, ErrorKind};

use crate::protocol::ProtocolViolation;

/// An error of a call of a program.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ProgramError {
    /// The program reported an error.
    #[error("{}", .0.message)]
    Reported(CallError),
    /// The program could not be loaded.
    #[error("cannot be loaded: {}", .0.message)]
    Load(CallError),
    /// The program violated the protocol, and was ended.
    #[error("{0}")]
    Violation(#[from] ProtocolViolation),
    /// The process ended before it answered.
    #[error("{how}")]
    Exited {
        /// The end, as a predicate without a subject, with the latest output.
        how: String,
    },
    /// The program did not answer in time.
    #[error("did not answer within {} ms", limit.as_millis())]
    TimedOut {
        /// The time limit.
        limit: Duration,
    },
    /// The process is not started again before a pause is over.
    #[error("{why}")]
    Paused {
        /// The reason of the latest exit.
        why: String,
        /// The rest of the pause.
        wait: Duration,
    },
    /// The process ended too often.
    #[error("{why}")]
    RestartLimit {
        /// The reason of the latest exit.
        why: String,
        /// The number of exits.
        crashes: usize,
    },
    /// Programs and delegations called each other too often.
    #[error("calls of programs and delegations are {depth} levels deep, the limit")]
    TooDeep {
        /// The limit.
        depth: usize,
    },
    /// The arguments exceed a message.
    #[error("the arguments have more than 4 MiB")]
    LongArguments,
    /// The result cannot be used.
    #[error("the result is not valid: {0}")]
    InvalidResult(String),
    /// The maximum number of processes is busy.
    #[error("{count} programs of skills are busy, the limit")]
    TooMany {
        /// The limit.
        count: usize,
    },
    /// The process could not be started.
    #[error("{}", .0.message)]
    NotStarted(CallError),
    /// The kernel ended the process: its thread is over or its skill has changed.
    #[error("was stopped")]
    Stopped,
}

impl ProgramError {
    /// Returns the error of a call of a tool.
    #[must_use]
    pub fn to_call_error(&self, tool: &str) -> CallError {
        let kind = match self {
            Self::Reported(error) | Self::Load(error) | Self::NotStarted(error) => error.kind,
            Self::Violation(_) | Self::InvalidResult(_) => ErrorKind::Protocol,
            Self::Exited { .. }
            | Self::Paused { .. }
            | Self::RestartLimit { .. }
            | Self::TooMany { .. }
            | Self::Stopped => ErrorKind::Unavailable,
            Self::TimedOut { .. } => ErrorKind::Timeout,
            Self::TooDeep { .. } => ErrorKind::Denied,
            Self::LongArguments => ErrorKind::TooLarge,
        };
        let message = match self {
            Self::Reported(error) | Self::NotStarted(error) => error.message.clone(),
            // The line is that of the program, so its name adds nothing.
            Self::Violation(_)
            | Self::LongArguments
            | Self::TooDeep { .. }
            | Self::TooMany { .. } => self.to_string(),
            Self::Paused { why, .. } => format!("program `{tool}` {why}"),
            Self::RestartLimit { why, crashes } => {
                format!("program `{tool}` ended {crashes} times; the last time it {why}")
            }
            Self::InvalidResult(_) => format!("program `{tool}`: {self}"),
            Self::Load(_) | Self::Exited { .. } | Self::TimedOut { .. } | Self::Stopped => {
                format!("program `{tool}` {self}")
            }
        };
        CallError::new(kind, message).with_hint(self.hint())
    }

    fn hint(&self) -> String {
        match self {
            Self::Reported(error) | Self::Load(error) | Self::NotStarted(error) => {
                error.hint.clone()
            }
            Self::Violation(_) => {
                "descriptor 3 of a program is the kernel's; the process was ended".to_owned()
            }
            Self::Exited { .. } => "check for partial effects of the call".to_owned(),
            Self::TimedOut { .. } => {
                "raise `limits: {seconds}` of `sandbox.handlers` in the settings, if the program \
                 needs more time"
                    .to_owned()
            }
            Self::Paused { wait, .. } => format!("call it again after {} ms", wait.as_millis()),
            Self::RestartLimit { .. } => {
                "it is started again in another thread, or when files of its skill change"
                    .to_owned()
            }
            Self::TooDeep { .. } => "reply with the results so far".to_owned(),
            Self::TooMany { .. } => "call it again when other calls have ended".to_owned(),
            Self::LongArguments | Self::InvalidResult(_) | Self::Stopped => String::new(),
        }
    }
}
