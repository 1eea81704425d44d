//! The errors of opening a store and of tools.

use std::path::PathBuf;

use serde::Serialize;
use skill_format::sanitize_line;
use skillhost_payload::ErrorKind;

use crate::advice::Advice;

/// An error of opening a store or of writing its generation.
///
/// A problem on disk does not prevent a store from opening: a missing root or an invalid skill is a
/// [`ScanProblem`](crate::ScanProblem) of the snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Two roots have the same label.
    #[error("two roots have the label `{0}`")]
    DuplicateLabel(String),
    /// A root's label is empty or has a character that would make `id@label` ambiguous.
    #[error("`{0}` cannot be a root's label: it must not be empty or contain `@`, `#` or `/`")]
    Label(String),
    /// An ignore pattern is not a glob.
    #[error("ignore pattern `{pattern}`: {reason}")]
    Ignore {
        /// The pattern.
        pattern: String,
        /// The reason.
        reason: String,
    },
    /// The number of roots exceeds the limit.
    #[error("at most {0} roots are possible")]
    TooManyRoots(usize),
    /// The generation file cannot be written.
    #[error("the generation file {path} cannot be written: {source}", path = path.display())]
    Generation {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

/// An error of a tool, with a hint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct RegistryError {
    /// The kind of the error.
    pub kind: ErrorKind,
    /// The message.
    pub message: String,
    /// The hint: the next step for the caller.
    pub hint: Advice,
    /// Up to three names that may have been meant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub similar: Vec<String>,
}

impl RegistryError {
    /// Creates an error without similar names.
    pub fn new(kind: ErrorKind, message: String, hint: impl Into<Advice>) -> Self {
        Self { kind, message, hint: hint.into(), similar: Vec::new() }
    }

    /// Creates an error about an unknown name; the hint lists similar names, else it is
    /// `otherwise`.
    pub fn not_found(message: String, similar: Vec<String>, otherwise: impl Into<Advice>) -> Self {
        let quoted: Vec<String> =
            similar.iter().map(|name| format!("`{}`", sanitize_line(name))).collect();
        let hint = if quoted.is_empty() {
            otherwise.into()
        } else {
            format!("did you mean {}?", quoted.join(" or ")).into()
        };
        Self { kind: ErrorKind::NotFound, message, hint, similar }
    }
}
