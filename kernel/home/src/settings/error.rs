//! Errors of settings.

use std::io;
use std::path::PathBuf;

use skillhost_payload::OperatorCommand;
use skillhost_policy::PolicyError;

/// The reason why settings could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file exists but could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file contains an invalid entry.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The reason.
        message: String,
        /// The most similar known key, if any.
        nearest: Option<String>,
    },
    /// The file that `sandbox.policy_file` names is not valid.
    #[error("policy_file {}: {source}", path.display())]
    PolicyFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: PolicyError,
    },
    /// A variable contains an invalid value.
    #[error("environment: {message}")]
    Environment {
        /// The reason.
        message: String,
    },
}

impl SettingsError {
    /// Returns a hint.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::InvalidInput => {
                "replace it with a regular file".to_owned()
            }
            Self::Io { .. } => "check that the file may be read".to_owned(),
            Self::PolicyFile { .. } => {
                "correct the file, or remove policy_file from the settings".to_owned()
            }
            Self::Invalid { nearest: Some(key), .. } => format!("did you mean `{key}`?"),
            Self::Invalid { .. } | Self::Environment { .. } => {
                format!("see the valid keys: {}", OperatorCommand::PrintSettingsSchema)
            }
        }
    }
}
