//! The one error of the command line: an exit code, a message, hints. Every conversion is here.

use std::io;

use serde_json::{Value, json};
use skillhost_kernel::control::MessageError;
use skillhost_kernel::supervision::SupervisorLockError;
use skillhost_kernel::{
    ApprovalsError, HomeError, KernelError, ModelErrorKind, RunError, SettingsError, ThreadError,
};
use skillhost_payload::{CallError, ErrorKind};

use crate::exit;

/// The error of a failed command.
#[derive(Debug)]
pub(crate) struct CliError {
    code: u8,
    kind: &'static str,
    message: String,
    hints: Vec<String>,
}

impl CliError {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        let kind = match code {
            exit::FINDINGS => "failed",
            exit::USAGE => "usage",
            exit::NOT_FOUND => "not_found",
            exit::CONFLICT => "conflict",
            exit::CRASHED => "crashed",
            exit::INTERRUPTED => "interrupted",
            _ => "io",
        };
        Self { code, kind, message: message.into(), hints: Vec::new() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(exit::USAGE, message)
    }

    /// Creates the error of a failed file operation.
    pub(crate) fn io(path: &std::path::Path, error: &io::Error) -> Self {
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

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.extend(hint.into().lines().map(str::to_owned));
        self
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn hints(&self) -> &[String] {
        &self.hints
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({ "kind": self.kind, "message": self.message, "hints": self.hints })
    }

    /// Creates an error with the kind of a tool's or extension's error.
    pub(crate) fn from_kind(kind: ErrorKind, message: &str, hint: &str) -> Self {
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

impl From<KernelError> for CliError {
    fn from(error: KernelError) -> Self {
        Self::from_kind(error.kind(), &error.to_string(), &error.hint())
    }
}

impl From<ThreadError> for CliError {
    fn from(error: ThreadError) -> Self {
        Self::from_kind(error.kind(), &error.to_string(), &error.hint())
    }
}

impl From<RunError> for CliError {
    fn from(error: RunError) -> Self {
        let kind = error.kind();
        match error {
            RunError::Cancelled => Self::new(exit::INTERRUPTED, error.to_string()),
            RunError::Thread(error) => error.into(),
            RunError::Agent(error) => error.into(),
            // An error of a known model is not a mistake in the command line.
            RunError::Model(error) => {
                let failed = Self::from_kind(kind, &error.to_string(), &error.hint);
                let code = match error.kind {
                    ModelErrorKind::Unknown => exit::NOT_FOUND,
                    ModelErrorKind::Key => exit::IO,
                    _ => exit::FINDINGS,
                };
                Self { code, ..failed }
            }
            error => Self::from_kind(kind, &error.to_string(), &error.hint()),
        }
    }
}

impl From<MessageError> for CliError {
    fn from(MessageError { what, error }: MessageError) -> Self {
        let failed = Self::from_kind(error.kind, &error.message, &error.hint);
        match (what.as_str(), error.kind) {
            ("cancelled", _) => Self::new(exit::INTERRUPTED, error.message),
            ("model", ErrorKind::NotFound | ErrorKind::Denied) => failed,
            // As for [`RunError::Model`].
            ("model", _) => Self { code: exit::FINDINGS, ..failed },
            _ => failed,
        }
    }
}

impl From<HomeError> for CliError {
    fn from(error: HomeError) -> Self {
        let code = match error {
            HomeError::NotFound | HomeError::Missing { .. } | HomeError::NoSandbox { .. } => {
                exit::NOT_FOUND
            }
            _ => exit::IO,
        };
        Self::new(code, error.to_string()).with_hint(error.hint())
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

impl From<SupervisorLockError> for CliError {
    fn from(error: SupervisorLockError) -> Self {
        let message = error.to_string();
        match error {
            SupervisorLockError::Held { .. } => Self::new(exit::CONFLICT, message)
                .with_hint("stop the other one, or use another --home"),
            SupervisorLockError::Io { path, source } => Self::io(&path, &source),
        }
    }
}

impl From<skill_store::RegistryError> for CliError {
    fn from(error: skill_store::RegistryError) -> Self {
        use skill_store::ErrorKind as Kind;
        let kind = match error.kind {
            Kind::NotFound => ErrorKind::NotFound,
            Kind::InvalidArgument => ErrorKind::InvalidArgument,
            Kind::Denied => ErrorKind::Denied,
            Kind::TooLarge => ErrorKind::TooLarge,
            Kind::Conflict => ErrorKind::Conflict,
            Kind::Io => ErrorKind::Io,
        };
        // The hints address models, which call tools; users run commands.
        let hint = error
            .hint
            .replace("list_skills shows", "`skillhost skill list` shows")
            .replace("read_skill lists", "`skillhost skill show` lists");
        Self::from_kind(kind, &error.message, &hint)
    }
}

impl From<skill_store::LedgerError> for CliError {
    fn from(error: skill_store::LedgerError) -> Self {
        let mut registry_error = skill_store::RegistryError::from(error);
        // The ledger omits the program's name in its commands.
        registry_error.hint = registry_error.hint.replace("`skill ", "`skillhost skill ");
        registry_error.into()
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        Self::new(exit::IO, error.to_string())
    }
}
