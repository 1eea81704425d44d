//! Errors of the files of approvals.

use std::io;
use std::path::PathBuf;

use skillhost_payload::OperatorCommand;

/// An error of the journal of approvals.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalsError {
    /// The journal could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The journal.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A line of the journal is not a record.
    #[error("{}:{line}: not a record of an approval: {reason}", path.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The reason.
        reason: String,
    },
}

/// The command that approves an extension.
pub(super) const APPROVE: OperatorCommand<'_> = OperatorCommand::ApproveExtension { id: "ID" };

/// The command that approves the scripts of a skill.
const APPROVE_SCRIPTS: OperatorCommand<'_> = OperatorCommand::ApproveScripts { id: "ID" };

/// The file of the grants of scripts in the kernel's data directory.
pub(super) const SCRIPT_GRANTS: &str = "script-approvals.jsonl";

impl ApprovalsError {
    /// Returns a hint.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Io { .. } => "check that it may be read and written".to_owned(),
            Self::Damaged { path, .. } => {
                let (things, command) = match path.ends_with(SCRIPT_GRANTS) {
                    true => ("the scripts of each skill", APPROVE_SCRIPTS),
                    false => ("each extension", APPROVE),
                };
                let path = path.display();
                format!("move {path} away, then review and approve {things} again: {command}")
            }
        }
    }
}
