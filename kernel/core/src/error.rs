//! The errors of a call into an extension, and of the kernel itself.

use std::fmt;

use skillhost_manifest::ExtensionId;
use skillhost_payload::{CallError, ErrorKind, OperatorCommand};

/// A kind of object that callers name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedObject {
    /// A tool.
    Tool,
    /// An agent.
    Agent,
    /// An extension.
    Extension,
    /// A schedule.
    Schedule,
}

impl fmt::Display for NamedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tool => "tool",
            Self::Agent => "agent",
            Self::Extension => "extension",
            Self::Schedule => "schedule",
        })
    }
}

/// The error of an operation of the kernel.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// No tool, agent or extension of that name is loaded.
    #[error("{what} `{id}` not found")]
    NotFound {
        /// The kind of object.
        what: NamedObject,
        /// The requested name.
        id: String,
        /// Up to three similar names.
        similar: Vec<String>,
    },
    /// The agent exists, but its instructions could not be resolved.
    #[error("agent `{id}` is in the error state: {reason}")]
    AgentFailed {
        /// The agent.
        id: ExtensionId,
        /// The reason, with file and line.
        reason: String,
        /// A hint.
        hint: String,
    },
    /// An extension or the kernel's part of a call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A new build was not loaded; the previous one stays in use.
    #[error("`{id}` was not reloaded ({phase}): {reason}")]
    NotReloaded {
        /// The extension.
        id: ExtensionId,
        /// The failed phase.
        phase: skillhost_home::LoadPhase,
        /// The reason.
        reason: String,
        /// A hint; may be empty.
        hint: String,
    },
    /// An extension that is not loaded could not be started.
    #[error("`{id}` was not started ({phase}): {reason}")]
    NotStarted {
        /// The extension.
        id: ExtensionId,
        /// The failed phase.
        phase: skillhost_home::LoadPhase,
        /// The reason.
        reason: String,
        /// A hint; may be empty.
        hint: String,
    },
}

impl KernelError {
    /// Returns the kind of error, as for a call.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::AgentFailed { .. } | Self::NotReloaded { .. } | Self::NotStarted { .. } => {
                ErrorKind::Failed
            }
            Self::Call(error) => error.kind,
        }
    }

    /// Returns the hints, one per line.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NotFound { what, similar, .. } => {
                let list = match what {
                    NamedObject::Tool => OperatorCommand::ListTools,
                    NamedObject::Agent => OperatorCommand::ListAgents,
                    NamedObject::Schedule => OperatorCommand::ListSchedules,
                    NamedObject::Extension => OperatorCommand::ListExtensions,
                };
                match similar.as_slice() {
                    [] => format!("see: {list}"),
                    names => format!("did you mean {}?\nsee: {list}", names.join(", ")),
                }
            }
            Self::AgentFailed { hint, .. } | Self::NotStarted { hint, .. } => hint.clone(),
            Self::Call(error) => error.hint.clone(),
            Self::NotReloaded { hint, .. } => {
                format!("{hint}\nthe previous build stays in use").trim_start().to_owned()
            }
        }
    }
}

impl From<KernelError> for CallError {
    fn from(error: KernelError) -> Self {
        match error {
            KernelError::Call(error) => error,
            other => Self::new(other.kind(), other.to_string()).with_hint(other.hint()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KernelError, NamedObject};

    #[test]
    fn not_found_hint_names_list_command() {
        let hint = |what| KernelError::NotFound { what, id: "x".into(), similar: vec![] }.hint();
        assert_eq!(hint(NamedObject::Tool), "see: skillhost tool list");
        assert_eq!(hint(NamedObject::Agent), "see: skillhost agent list");
        assert_eq!(hint(NamedObject::Schedule), "see: skillhost schedule list");
        assert_eq!(hint(NamedObject::Extension), "see: skillhost ext list");
    }
}
