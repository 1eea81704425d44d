//! What can be wrong with a thread.

use std::io;
use std::path::PathBuf;

use skillhost_contract::payload::ErrorKind;

/// Why a thread could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ThreadError {
    /// What was given is no thread's id.
    #[error("`{}` is not the id of a thread", id.escape_debug())]
    BadId {
        /// What was given.
        id: String,
    },
    /// No thread has that id.
    #[error("no thread `{id}`")]
    NotFound {
        /// The id asked for.
        id: String,
        /// Up to three ids that look like it.
        similar: Vec<String>,
    },
    /// Somebody else goes on with it right now.
    #[error("thread `{id}` is in use by another process")]
    Busy {
        /// The thread.
        id: String,
    },
    /// The journal is of another version of the kernel.
    #[error("{}: a journal of version {version}, this kernel reads version {}", path.display(), super::VERSION)]
    Version {
        /// The journal.
        path: PathBuf,
        /// Its version.
        version: u64,
    },
    /// A line of the journal that is not the last is not what was written.
    #[error("{}:{line}: {reason}", path.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A conversation cannot be cut there: a tool's answer would lose its call.
    #[error("a conversation of {messages} messages cannot be cut before message {keep_from}")]
    BadCut {
        /// The first message that would have stayed.
        keep_from: usize,
        /// How many there are.
        messages: usize,
    },
    /// The journal could not be read or written. What it had it still has.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl ThreadError {
    /// The kind of failure, as for a call.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::BadId { .. } | Self::BadCut { .. } => ErrorKind::InvalidArgument,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Busy { .. } => ErrorKind::Conflict,
            Self::Version { .. } | Self::Damaged { .. } | Self::Io { .. } => ErrorKind::Io,
        }
    }

    /// What to do about it, one line each.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::BadId { .. } => {
                "an id has 1 to 64 lower-case letters, digits and hyphens\nsee: skillhost threads list"
                    .to_owned()
            }
            Self::NotFound { similar, .. } => match similar.as_slice() {
                [] => "see: skillhost threads list".to_owned(),
                ids => format!("did you mean {}?\nsee: skillhost threads list", ids.join(", ")),
            },
            Self::Busy { .. } => {
                "end the other chat, or begin another thread by leaving --thread out".to_owned()
            }
            Self::Version { .. } => "go on with it in the version that wrote it".to_owned(),
            Self::Damaged { .. } => {
                "take that line and those after it out, or begin another thread".to_owned()
            }
            Self::BadCut { .. } => String::new(),
            Self::Io { .. } => {
                "check that it may be written and that the disk has room; nothing that was said is lost"
                    .to_owned()
            }
        }
    }
}
