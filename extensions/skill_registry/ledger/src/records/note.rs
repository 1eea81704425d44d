//! Observations that a person should see in addition to the result of a call.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;
use skillhost_payload::OperatorCommand;

/// An observation or repair that the ledger made during a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "note", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LedgerNote {
    /// The database was missing or unreadable and was rebuilt from the proposal files.
    Rebuilt {
        /// The path to which the unreadable file was moved; `None` if it was missing.
        moved_to: Option<PathBuf>,
        /// The number of proposals that are open again.
        proposals: usize,
        /// Files in the proposals' directory that could not be read.
        unreadable: Vec<PathBuf>,
    },
    /// The records of skills that agents created were lost with the database and its copy: until a
    /// person approves them, skills neither grant tools nor can be bound.
    OriginsLost,
    /// An interrupted change was completed.
    Finished {
        /// The skill.
        skill_id: String,
        /// The proposal.
        proposal: Option<String>,
    },
    /// An interrupted change could not be completed.
    Unfinished {
        /// The skill.
        skill_id: String,
        /// The proposal.
        proposal: Option<String>,
        /// The reason.
        reason: String,
    },
    /// Temporary files of an interrupted change were removed.
    #[serde(rename = "swept")]
    TemporaryFilesRemoved {
        /// The skill.
        skill_id: String,
        /// The number of files.
        files: usize,
    },
    /// Reads that were faster than the disk and are missing from the log.
    ReadingsDropped {
        /// The number of reads.
        count: u64,
    },
    /// The reviewing agent did not decide about a proposal; a person has to.
    NotReviewed {
        /// The proposal.
        proposal: String,
        /// The reason.
        reason: String,
    },
    /// A proposal's file was edited by hand; the edit is kept and has no effect.
    EditedFile {
        /// The file.
        path: PathBuf,
    },
    /// A proposal's file could not be written; the proposal itself is stored in the database.
    FileNotWritten {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Running registries were not notified and find the change at their next poll.
    NotAnnounced {
        /// The reason.
        reason: String,
    },
    /// The approval of a skill could not be determined: its `allowed-tools` has no effect.
    ApprovalUnknown {
        /// The skill.
        skill_id: String,
        /// The reason.
        reason: String,
    },
}

impl fmt::Display for LedgerNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rebuilt { moved_to, proposals, unreadable } => {
                match moved_to {
                    Some(path) => write!(
                        f,
                        "the database could not be read and was moved to {}; it was",
                        path.display()
                    )?,
                    None => f.write_str("the database was missing; it was")?,
                }
                write!(
                    f,
                    " rebuilt from the proposal files: {proposals} proposals are open again"
                )?;
                if !unreadable.is_empty() {
                    write!(f, ", {} files are not valid proposals", unreadable.len())?;
                }
                Ok(())
            }
            Self::OriginsLost => write!(
                f,
                "the records of skills that agents created were lost: no skill grants tools or can be \
                 bound until it is approved with `{}`",
                OperatorCommand::ApproveSkill { id: "ID", digest: None }
            ),
            Self::Finished { skill_id, .. } => {
                write!(f, "an interrupted change of `{skill_id}` was completed")
            }
            Self::Unfinished { skill_id, reason, .. } => {
                write!(f, "an interrupted change of `{skill_id}` was abandoned: {reason}")
            }
            Self::TemporaryFilesRemoved { skill_id, files } => {
                write!(f, "{files} temporary files were removed from `{skill_id}`")
            }
            Self::ReadingsDropped { count } => {
                write!(f, "{count} reads of skills are missing from the log: too many at once")
            }
            Self::NotReviewed { proposal, reason } => {
                write!(f, "proposal {proposal} requires a decision by a person: {reason}")
            }
            Self::EditedFile { path } => write!(
                f,
                "{} was edited by hand, which has no effect; the file is left as it is",
                path.display()
            ),
            Self::FileNotWritten { path, reason } => {
                write!(f, "{} could not be written: {reason}", path.display())
            }
            Self::NotAnnounced { reason } => {
                write!(f, "running registries find the change at their next poll: {reason}")
            }
            Self::ApprovalUnknown { skill_id, reason } => {
                write!(f, "`allowed-tools` of `{skill_id}` has no effect for now: {reason}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_files_note_keeps_its_name() {
        let note = LedgerNote::TemporaryFilesRemoved { skill_id: "beads".into(), files: 1 };
        let json = serde_json::to_value(&note).unwrap();
        assert_eq!(json, serde_json::json!({"note": "swept", "skill_id": "beads", "files": 1}));
    }
}
