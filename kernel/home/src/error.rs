//! Errors of a home and of its trust.

use std::io;
use std::path::PathBuf;

/// The reason why a home is missing or unusable.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// No home is named, and none was found.
    #[error(
        "home not found: neither --home nor SKILLHOST_HOME is set, and no directory here or above has a sandbox/"
    )]
    NotFound,
    /// The named directory does not exist.
    #[error("{}: no such directory", path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// The named directory is not a home.
    #[error("{}: not a home, it has no sandbox/ directory", path.display())]
    NoSandbox {
        /// The directory.
        path: PathBuf,
    },
    /// Extensions of this home may not be loaded.
    #[error("{}: this home is not trusted, so none of its extensions are loaded", path.display())]
    Untrusted {
        /// The home.
        path: PathBuf,
    },
    /// The home was trusted, but has changed.
    #[error("{}: this home is not trusted any longer: {change}", path.display())]
    Changed {
        /// The home.
        path: PathBuf,
        /// The change.
        change: HomeChange,
    },
    /// Every user may write to the home.
    #[error("{}: every user may write to this home, so it cannot be trusted", path.display())]
    WorldWritable {
        /// The home.
        path: PathBuf,
    },
    /// Another user may have written the record of trusted homes.
    #[error("{}: this record of trusted homes does not count: {problem}", path.display())]
    UnsafeRecord {
        /// The record.
        path: PathBuf,
        /// The reason.
        problem: &'static str,
    },
    /// A line of the record of trusted homes is not valid.
    #[error("{}:{line}: this line is not a record of a trusted home", path.display())]
    DamagedRecord {
        /// The record.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// A directory of an untrusted home is a link.
    #[error("{}: a symbolic link, which is not followed in a home that is not trusted", path.display())]
    LinkedDirectory {
        /// The home.
        home: PathBuf,
        /// The directory.
        path: PathBuf,
    },
    /// The record of trusted homes, or the home itself, could not be used.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Neither `XDG_STATE_HOME` nor `HOME` names a directory for the record of trusted homes.
    #[error("neither XDG_STATE_HOME nor HOME is set, so trust cannot be recorded")]
    NoStateDir,
    /// A path with a line break cannot be recorded.
    #[error("{}: a path with a line break cannot be trusted", path.display())]
    Unrecordable {
        /// The home.
        path: PathBuf,
    },
}

/// The reason why a previously trusted home is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HomeChange {
    /// Another user owns the directory.
    #[error("its owner is user {found}, and was user {recorded}")]
    Owner {
        /// The owner when it was trusted.
        recorded: u32,
        /// The owner now.
        found: u32,
    },
    /// Another directory has taken its place.
    #[error("another directory has taken its place")]
    Replaced,
    /// More users may write to it than before.
    #[error("more users may write to it than when it was trusted")]
    Writable,
    /// The record names only the path.
    #[error("its record is from an earlier version and names only its path")]
    PathOnly,
    /// The directory does not exist.
    #[error("it does not exist")]
    Missing,
}
