//! Errors of threads and their journals.

use std::io;
use std::path::PathBuf;

use skillhost_payload::{ErrorKind, OperatorCommand};

/// An error returned when a thread cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ThreadError {
    /// The given text is not a thread id.
    #[error("`{}` is not a valid thread id", id.escape_debug())]
    BadId {
        /// The given text.
        id: String,
    },
    /// No thread has that id.
    #[error("thread `{id}` not found")]
    NotFound {
        /// The requested id.
        id: String,
        /// Up to three similar ids.
        similar: Vec<String>,
    },
    /// Several ids start with the text.
    #[error("`{prefix}` is the start of {count} thread ids")]
    Ambiguous {
        /// The given text.
        prefix: String,
        /// The number of ids.
        count: usize,
        /// The last of these ids.
        ids: Vec<String>,
    },
    /// Another process has the thread open.
    #[error("thread `{id}` is in use by another process")]
    Busy {
        /// The thread.
        id: String,
    },
    /// The journal's version is not supported by this kernel.
    #[error("{}: journal version {version} is not supported; this kernel reads version {}", path.display(), super::line::VERSION)]
    Version {
        /// The journal.
        path: PathBuf,
        /// Its version.
        version: u64,
    },
    /// A complete line has an entry of a kind that this kernel does not know.
    #[error("{}:{line}: an entry of a kind that this kernel does not know", path.display())]
    LaterEntry {
        /// The journal.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// A line before the last one is damaged.
    #[error("{}:{line}: {reason}", path.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The reason.
        reason: String,
    },
    /// The cut would separate a tool result from its call.
    #[error("thread of {messages} messages cannot be cut before message {keep_from}")]
    BadCut {
        /// The first message that would have been kept.
        keep_from: usize,
        /// The number of messages.
        messages: usize,
    },
    /// The journal could not be read or written. Its earlier entries are intact.
    #[error("{}: {source}", path.display())]
    Io {
        /// The journal's path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// The command that lists threads.
const LIST: OperatorCommand<'_> = OperatorCommand::ListThreads;

impl ThreadError {
    /// Returns the kind of error, as for a tool call.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::BadId { .. } | Self::BadCut { .. } | Self::Ambiguous { .. } => {
                ErrorKind::InvalidArgument
            }
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Busy { .. } => ErrorKind::Conflict,
            Self::Version { .. }
            | Self::LaterEntry { .. }
            | Self::Damaged { .. }
            | Self::Io { .. } => ErrorKind::Io,
        }
    }

    /// Returns hints for the operator, one per line; may be empty.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::BadId { .. } => {
                format!("use 1 to 64 lower-case letters, digits and hyphens\nsee: {LIST}")
            }
            Self::NotFound { similar, .. } => match similar.as_slice() {
                [] => format!("see: {LIST}"),
                ids => format!("did you mean {}?\nsee: {LIST}", ids.join(", ")),
            },
            Self::Ambiguous { ids, .. } => {
                format!("add characters; the last ones are {}\nsee: {LIST}", ids.join(", "))
            }
            Self::Busy { .. } => {
                "end the other chat, or start a new thread without --thread".to_owned()
            }
            Self::Version { .. } | Self::LaterEntry { .. } => {
                "resume it with the kernel version that wrote it".to_owned()
            }
            Self::Damaged { .. } => {
                "remove that line and all after it, or start a new thread".to_owned()
            }
            Self::BadCut { .. } => String::new(),
            Self::Io { .. } => {
                "check that it is writable and that the disk has space; stored messages are intact"
                    .to_owned()
            }
        }
    }
}
