//! What a person should hear beside the answer.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// Something the ledger noticed or repaired on the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "note", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LedgerNote {
    /// The database was gone or unreadable and was made again from the proposal files.
    Rebuilt {
        /// Where the unreadable file was moved; nothing if there was none.
        moved_to: Option<PathBuf>,
        /// How many proposals are open again.
        proposals: usize,
        /// Files in the proposals' directory that could not be read.
        unreadable: Vec<PathBuf>,
    },
    /// The records of which skills agents created were lost with the database and its copy: until
    /// somebody approves them, no skill grants anything or can be bound.
    OriginsLost,
    /// A change that was interrupted was brought to its end.
    Finished {
        /// The skill.
        skill_id: String,
        /// The proposal.
        proposal: Option<String>,
    },
    /// A change that was interrupted could not be brought to its end.
    Unfinished {
        /// The skill.
        skill_id: String,
        /// The proposal.
        proposal: Option<String>,
        /// Why.
        reason: String,
    },
    /// Temporary files of an interrupted change were removed.
    #[serde(rename = "swept")]
    TemporaryFilesRemoved {
        /// The skill.
        skill_id: String,
        /// How many.
        files: usize,
    },
    /// Readings came faster than they could be written; these are not in the log.
    ReadingsDropped {
        /// How many.
        count: u64,
    },
    /// The reviewing agent did not decide about a proposal; a person does.
    NotReviewed {
        /// The proposal.
        proposal: String,
        /// Why.
        reason: String,
    },
    /// Somebody edited a proposal's file; it is left alone and changes nothing.
    EditedFile {
        /// The file.
        path: PathBuf,
    },
    /// A proposal's file could not be written; the proposal is safe in the database.
    FileNotWritten {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Running registries will see the change at their next poll only.
    NotAnnounced {
        /// Why.
        reason: String,
    },
    /// Whether a person approved a skill is not known: its `allowed-tools` does not count.
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
                    None => f.write_str("the database was gone; it was")?,
                }
                write!(f, " rebuilt from the proposal files: {proposals} are open again")?;
                if !unreadable.is_empty() {
                    write!(f, ", {} files that are no proposals", unreadable.len())?;
                }
                Ok(())
            }
            Self::OriginsLost => f.write_str(
                "which skills agents created is no longer known: no skill grants anything or can be \
                 bound until it is approved with `skillhost skill approve ID`",
            ),
            Self::Finished { skill_id, .. } => {
                write!(f, "an interrupted change of `{skill_id}` was brought to its end")
            }
            Self::Unfinished { skill_id, reason, .. } => {
                write!(f, "an interrupted change of `{skill_id}` was given up: {reason}")
            }
            Self::TemporaryFilesRemoved { skill_id, files } => {
                write!(f, "{files} temporary files were removed from `{skill_id}`")
            }
            Self::ReadingsDropped { count } => {
                write!(f, "{count} readings of skills are missing from the log: too many at once")
            }
            Self::NotReviewed { proposal, reason } => {
                write!(f, "proposal {proposal} waits for a person: {reason}")
            }
            Self::EditedFile { path } => write!(
                f,
                "{} was edited by hand, which changes nothing; it is left as it is",
                path.display()
            ),
            Self::FileNotWritten { path, reason } => {
                write!(f, "{} could not be written: {reason}", path.display())
            }
            Self::NotAnnounced { reason } => {
                write!(f, "running registries see the change at their next poll: {reason}")
            }
            Self::ApprovalUnknown { skill_id, reason } => {
                write!(f, "`allowed-tools` of `{skill_id}` does not count for now: {reason}")
            }
        }
    }
}
