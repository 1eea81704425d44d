//! Errors of repositories.

use skillhost_sdk::{ErrorKind, ExtensionError};

use super::object_id::ObjectId;

/// The reason why a repository cannot be read.
#[derive(Debug)]
pub(crate) enum GitError {
    /// An object is missing.
    NoObject(ObjectId),
    /// A revision is not known.
    NoRevision(String),
    /// A file of the repository is malformed.
    Damaged(&'static str),
    /// An object is above the size limit.
    TooLarge(u64),
    /// The repository uses a feature that this reader does not know.
    Unsupported(&'static str),
    /// The time for the call is over.
    TimedOut,
    /// The system failed.
    Io(std::io::Error),
}

impl From<std::io::Error> for GitError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<GitError> for ExtensionError {
    fn from(error: GitError) -> Self {
        let (kind, message, hint) = match error {
            GitError::NoObject(id) => (
                ErrorKind::NotFound,
                format!("object {id} is not in the repository"),
                "it may be a partial clone, or borrow objects of another repository; the user can \
                 fetch them",
            ),
            GitError::NoRevision(revision) => (
                ErrorKind::NotFound,
                format!("revision {revision:?} not found"),
                "name a branch, a tag, a commit or HEAD, also with ~2 or ^ at the end",
            ),
            GitError::Damaged(what) => (
                ErrorKind::Failed,
                format!("the repository is damaged: {what}"),
                "the user can check it with `git fsck`",
            ),
            GitError::TooLarge(size) => (
                ErrorKind::TooLarge,
                format!("an object has {size} bytes"),
                "limit the call to other paths",
            ),
            GitError::Unsupported(what) => (
                ErrorKind::Unavailable,
                format!("the repository uses {what}, which is not supported"),
                "read the files instead",
            ),
            GitError::TimedOut => (
                ErrorKind::Timeout,
                "the time was over before the repository was read".to_owned(),
                "name a path, a later base or a smaller limit",
            ),
            GitError::Io(error) => {
                (ErrorKind::Io, format!("the repository: {error}"), "report it to the operator")
            }
        };
        Self::new(kind, message).with_hint(hint)
    }
}
