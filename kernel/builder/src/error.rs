//! The errors of builds and installations.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use skillhost_files::TreeError;
use skillhost_home::{ApprovalsError, LoadPhase, SettingsError};
use skillhost_payload::{CallError, ErrorKind, OperatorCommand};
use skillhost_policy::PolicyError;
use skillhost_sandbox::LaunchError;

/// A violation of the build policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyViolation {
    /// The path of the file, relative to the extension's directory.
    pub file: String,
    /// The line, counted from 1, if there is one.
    pub line: Option<u32>,
    /// The description of the violation.
    pub what: String,
    /// The suggested remedy.
    pub remedy: String,
}

impl fmt::Display for PolicyViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.what),
            None => write!(f, "{}: {}", self.file, self.what),
        }
    }
}

/// An error of building, installing or rolling back an extension.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The extension violates the policy; the list is never empty.
    #[error("{}", join_lines(.0))]
    PolicyViolations(Vec<PolicyViolation>),
    /// The files have changed since the plan.
    #[error("files of `{id}` changed during the build")]
    Changed {
        /// The id of the extension.
        id: String,
    },
    /// The compilation has failed.
    #[error("compilation failed\n{messages}")]
    Compile {
        /// The compiler's messages, shortened, each with its source line.
        messages: String,
        /// The suggested remedy; may be empty.
        hint: String,
    },
    /// A program could not be started.
    #[error("{program} failed to start: {source}")]
    Start {
        /// The name of the program.
        program: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A program was ended by a signal.
    #[error("{program} was ended by signal {signal}")]
    Killed {
        /// The name of the program.
        program: String,
        /// The number of the signal.
        signal: i32,
    },
    /// An action exceeded its time limit and was ended.
    #[error("{what} timed out after {} ms", limit.as_millis())]
    TimedOut {
        /// The action.
        what: &'static str,
        /// The time limit.
        limit: Duration,
        /// The suggested remedy.
        hint: &'static str,
    },
    /// A program exceeded a limit and was ended.
    #[error("{what} was ended because it exceeded its limit of {limit}")]
    LimitExceeded {
        /// The action.
        what: &'static str,
        /// The limited resource.
        limit: &'static str,
    },
    /// No isolation level can be reached, or the policy is not valid.
    #[error("not run without isolation: {message}")]
    Isolation {
        /// The reason.
        message: String,
        /// The suggested remedy; may be empty.
        hint: String,
    },
    /// The settings could not be read.
    #[error("{message}")]
    Settings {
        /// The error.
        message: String,
        /// The suggested remedy; may be empty.
        hint: String,
    },
    /// The sources of the SDK are missing.
    #[error("sources of skillhost-sdk not found next to this executable")]
    NoSdk,
    /// The compiler has read files outside of the review.
    #[error("build used files that were not reviewed: {}", files.join(", "))]
    UnreviewedFiles {
        /// The paths of the files.
        files: Vec<String>,
    },
    /// The built extension fails to load.
    #[error("built, but failed to load in phase {phase}: {reason}")]
    Rejected {
        /// The phase of the failure.
        phase: LoadPhase,
        /// The reason of the failure.
        reason: String,
        /// The suggested remedy; may be empty.
        hint: String,
    },
    /// The built extension ends the process of its trial.
    #[error("built, but failed to load: {what}")]
    Trial {
        /// The description of the failure.
        what: String,
        /// The output of the process; may be empty.
        printed: String,
    },
    /// A `sha256` cannot be inserted into the text of the manifest.
    #[error("manifest.yaml: a line `sha256: …` cannot be inserted")]
    Unpinnable,
    /// No earlier build is stored.
    #[error("earlier build of `{id}` not found")]
    NoPreviousBuild {
        /// The id of the extension.
        id: String,
        /// The suggested remedy.
        hint: String,
    },
    /// The stored build has another name than the manifest's entrypoint.
    #[error("earlier build of `{id}` is {was}, but the manifest names {is}")]
    PreviousBuildMismatch {
        /// The id of the extension.
        id: String,
        /// The file name of the stored build.
        was: String,
        /// The file name according to the manifest's `entrypoint`.
        is: String,
    },
    /// Another process builds for this home.
    #[error("another process builds an extension of this home")]
    Busy,
    /// An installation failed, and so did its undo.
    #[error("{source}; installation is incomplete and inactive until the next start {what}")]
    Unsettled {
        /// The first error.
        source: Box<BuildError>,
        /// The action of the next start.
        what: &'static str,
    },
    /// The library that a manifest names does not exist.
    #[error("library `{name}` not found in sandbox/extensions/{id}")]
    NoLibrary {
        /// The id of the extension.
        id: String,
        /// The file name of the library.
        name: String,
    },
    /// The manifest pins other files.
    #[error("manifest pins sha256 {pinned}, but {what} has {actual}")]
    OtherPin {
        /// The digest in the manifest.
        pinned: String,
        /// The digest of the library or of the files.
        actual: String,
        /// The name of the library or of the files.
        what: String,
    },
    /// The journal of approvals could not be read or written.
    #[error(transparent)]
    Approvals(#[from] ApprovalsError),
    /// The files of the directory could not be read.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A file or directory could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path of the file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// The last resort of an operator.
const OFF_HINT: &str = "or set `sandbox: off` in skillhost.yaml: all foreign code then runs with \
                        your permissions";

fn join_lines(violations: &[PolicyViolation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl BuildError {
    /// Returns a conversion of I/O errors for a path.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    /// Returns a conversion of errors of a program, with the action and the remedy of a timeout.
    pub(crate) fn launch(
        what: &'static str,
        hint: &'static str,
    ) -> impl FnOnce(LaunchError) -> Self {
        move |error| match error {
            LaunchError::Start { program, source } => Self::Start { program, source },
            LaunchError::TimedOut { limit } => Self::TimedOut { what, limit, hint },
        }
    }

    /// Converts an error of the settings.
    pub(crate) fn settings(error: &SettingsError) -> Self {
        Self::Settings { message: error.to_string(), hint: error.hint() }
    }

    /// Converts an error of a policy.
    pub(crate) fn policy(error: &PolicyError) -> Self {
        let hint = error.hint_or("correct `sandbox` in the manifest or in skillhost.yaml");
        Self::Settings { message: error.to_string(), hint }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::PolicyViolations(_) | Self::UnreviewedFiles { .. } => ErrorKind::Denied,
            Self::Changed { .. } | Self::PreviousBuildMismatch { .. } => ErrorKind::Conflict,
            Self::TimedOut { .. } => ErrorKind::Timeout,
            Self::LimitExceeded { .. } => ErrorKind::TooLarge,
            Self::Isolation { .. } => ErrorKind::Unavailable,
            Self::Settings { .. } => ErrorKind::InvalidArgument,
            Self::Start { .. } | Self::Killed { .. } | Self::NoSdk | Self::Busy => {
                ErrorKind::Unavailable
            }
            Self::NoPreviousBuild { .. } | Self::NoLibrary { .. } => ErrorKind::NotFound,
            Self::OtherPin { .. } => ErrorKind::Conflict,
            Self::Tree(TreeError::Io { .. }) | Self::Approvals(_) | Self::Io { .. } => {
                ErrorKind::Io
            }
            Self::Tree(_) => ErrorKind::Denied,
            Self::Unsettled { source, .. } => source.kind(),
            Self::Compile { .. }
            | Self::Rejected { .. }
            | Self::Trial { .. }
            | Self::Unpinnable => ErrorKind::Failed,
        }
    }

    /// Returns the suggested remedies, one per line; may be empty.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::PolicyViolations(violations) => {
                // Neighboring violations of the same rule have the same remedy.
                let mut remedies: Vec<_> = violations.iter().map(|v| v.remedy.as_str()).collect();
                remedies.dedup();
                remedies.join("\n")
            }
            Self::LimitExceeded { .. } => {
                "raise it in skillhost.yaml: `build` has those of time and memory, `sandbox.builds` \
                 the others"
                    .to_owned()
            }
            Self::Isolation { hint, .. } if hint.is_empty() => OFF_HINT.to_owned(),
            Self::Isolation { hint, .. } => format!("{hint}\n{OFF_HINT}"),
            Self::Settings { hint, .. }
            | Self::Compile { hint, .. }
            | Self::Rejected { hint, .. }
            | Self::NoPreviousBuild { hint, .. } => hint.clone(),
            Self::Changed { .. } => "do not change the files until the build is done".to_owned(),
            Self::Start { .. } => "install a Rust toolchain with cargo in PATH".to_owned(),
            Self::Killed { .. } => "repeat the build".to_owned(),
            Self::TimedOut { hint, .. } => (*hint).to_owned(),
            Self::NoSdk => {
                "set build.sdk in skillhost.yaml (kernel/sdk in the source tree)".to_owned()
            }
            Self::UnreviewedFiles { .. } => {
                "move the required content to Rust files in src/".to_owned()
            }
            Self::Trial { printed, .. } if printed.is_empty() => String::new(),
            Self::Trial { printed, .. } => format!("it printed: {printed}"),
            Self::Unpinnable => {
                "write the manifest as plain lines `field: value`, without `sha256`".to_owned()
            }
            Self::PreviousBuildMismatch { .. } => {
                "restore the entrypoint, then roll back".to_owned()
            }
            Self::Busy => "wait for the other build".to_owned(),
            Self::Unsettled { source, .. } => source.hint(),
            Self::NoLibrary { id, name } => format!(
                "build it: {}\nor copy one that you have built to it, such as \
                 target/release/{name}",
                OperatorCommand::BuildExtension { id }
            ),
            Self::OtherPin { .. } => "correct or remove `sha256` in the manifest".to_owned(),
            Self::Approvals(error) => error.hint(),
            Self::Tree(error) => error.hint(),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free space on the disk".to_owned()
            }
            Self::Io { .. } => "check that it exists and may be read and written".to_owned(),
        }
    }
}

impl From<BuildError> for CallError {
    fn from(error: BuildError) -> Self {
        Self { kind: error.kind(), message: error.to_string(), hint: error.hint() }
    }
}
