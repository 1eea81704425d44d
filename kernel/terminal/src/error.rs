//! The one error of the command line: an exit code, a message, hints.

use std::io;

use serde_json::{Value, json};
use skillhost_control::{KernelLockError, MessageError, MessageFailure};
use skillhost_conversation::ThreadError;
use skillhost_home::{ApprovalsError, SettingsError};
use skillhost_payload::{CallError, ErrorKind, OperatorCommand};

use crate::exit;

/// The error of a failed command.
#[derive(Debug)]
pub struct CliError {
    code: u8,
    kind: &'static str,
    message: String,
    hints: Vec<String>,
}

impl CliError {
    /// Creates an error with an exit code, whose kind follows from the code.
    #[must_use]
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        let kind = match code {
            exit::FINDINGS => "failed",
            exit::USAGE => "usage",
            exit::NOT_FOUND => "not_found",
            exit::CONFLICT => "conflict",
            exit::PARKED => "parked",
            exit::CRASHED => "crashed",
            exit::INTERRUPTED => "interrupted",
            _ => "io",
        };
        Self { code, kind, message: message.into(), hints: Vec::new() }
    }

    /// Creates the error of an invalid command line.
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(exit::USAGE, message)
    }

    /// Creates the error of a failed file operation.
    #[must_use]
    pub fn io(path: &std::path::Path, error: &io::Error) -> Self {
        let code = match error.kind() {
            io::ErrorKind::NotFound => exit::NOT_FOUND,
            io::ErrorKind::AlreadyExists => exit::CONFLICT,
            _ => exit::IO,
        };
        let failed = Self::new(code, format!("{}: {error}", path.display()));
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                failed.with_hint("check who may read and write there")
            }
            io::ErrorKind::NotADirectory => {
                failed.with_hint("move the file away: a directory is required there")
            }
            _ => failed,
        }
    }

    /// Adds a hint per line.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.extend(hint.into().lines().map(str::to_owned));
        self
    }

    /// Returns the hint where the kernel that runs for a home is in the way.
    #[must_use]
    pub fn running_kernel_hint() -> String {
        let (status, stop) = (OperatorCommand::ShowStatus, OperatorCommand::StopKernel);
        format!("see: {status}; stop it: {stop}; or use another --home")
    }

    /// Returns the exit code.
    #[must_use]
    pub fn code(&self) -> u8 {
        self.code
    }

    /// Returns the message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the hints.
    #[must_use]
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// Returns the object that `--json` prints.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({ "kind": self.kind, "message": self.message, "hints": self.hints })
    }

    /// Replaces the exit code; the kind stays.
    #[must_use]
    pub fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    /// Creates an error with the kind of a tool's or extension's error.
    #[must_use]
    pub fn from_kind(kind: ErrorKind, message: &str, hint: &str) -> Self {
        let code = match kind {
            ErrorKind::NotFound => exit::NOT_FOUND,
            ErrorKind::InvalidArgument => exit::USAGE,
            ErrorKind::Conflict => exit::CONFLICT,
            ErrorKind::Io | ErrorKind::Denied => exit::IO,
            _ => exit::FINDINGS,
        };
        Self { kind: kind.as_str(), ..Self::new(code, message).with_hint(hint) }
    }
}

impl From<CallError> for CliError {
    fn from(error: CallError) -> Self {
        Self::from_kind(error.kind, &error.message, &error.hint)
    }
}

impl From<ThreadError> for CliError {
    fn from(error: ThreadError) -> Self {
        Self::from_kind(error.kind(), &error.to_string(), &error.hint())
    }
}

impl From<MessageError> for CliError {
    fn from(MessageError { what, error }: MessageError) -> Self {
        let failed = Self::from_kind(error.kind, &error.message, &error.hint);
        match (what, error.kind) {
            (MessageFailure::Cancelled, _) => Self::new(exit::INTERRUPTED, error.message),
            (MessageFailure::Parked, _) => Self { code: exit::PARKED, kind: "parked", ..failed },
            (MessageFailure::Model, ErrorKind::NotFound | ErrorKind::Denied) => failed,
            // An error of a known model is not a mistake in the command line.
            (MessageFailure::Model, _) => Self { code: exit::FINDINGS, ..failed },
            _ => failed,
        }
    }
}

impl From<SettingsError> for CliError {
    fn from(error: SettingsError) -> Self {
        let code = match error {
            SettingsError::Io { .. } => exit::IO,
            _ => exit::USAGE,
        };
        Self::new(code, error.to_string()).with_hint(error.hint())
    }
}

impl From<ApprovalsError> for CliError {
    fn from(error: ApprovalsError) -> Self {
        Self::new(exit::IO, error.to_string()).with_hint(error.hint())
    }
}

impl From<KernelLockError> for CliError {
    fn from(error: KernelLockError) -> Self {
        let message = error.to_string();
        match error {
            KernelLockError::Held { .. } => {
                Self::new(exit::CONFLICT, message).with_hint(Self::running_kernel_hint())
            }
            KernelLockError::Io { path, source } => Self::io(&path, &source),
        }
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        Self::new(exit::IO, error.to_string())
    }
}
