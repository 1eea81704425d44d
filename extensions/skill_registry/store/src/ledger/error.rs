//! Why the ledger refuses.

use std::io;
use std::path::Path;

use skill_format::Digest;

use crate::error::{ErrorKind, RegistryError};

/// Tells what the ledger refused for, more finely than [`ErrorKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LedgerErrorKind {
    /// There is no such skill, proposal, file or version.
    NotFound,
    /// A prefix of an id stands for several proposals.
    Ambiguous,
    /// An argument is missing, malformed or contradicts another.
    Argument,
    /// The path is not one that may be written.
    Denied,
    /// A text is over its limit.
    TooLarge,
    /// There are too many open proposals.
    Quota,
    /// The diff does not apply.
    DoesNotApply,
    /// The new text is not a valid skill.
    Invalid,
    /// The state of the proposal does not allow it.
    State,
    /// The digest is not that of the text that was reviewed.
    Digest,
    /// The file is no longer what the proposal was made for.
    Stale,
    /// The files moved while they were written.
    Conflict,
    /// Another process holds the ledger.
    Locked,
    /// A newer version of the program wrote the database.
    Newer,
    /// A stored text no longer has its digest.
    Corrupt,
    /// The database failed.
    Database,
    /// The disk failed.
    Io,
}

/// Says why the ledger did not do something, and what to do about it.
///
/// Nothing was changed unless the message says so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LedgerError {
    reason: LedgerErrorKind,
    message: String,
    hint: String,
    similar: Vec<String>,
    /// Whether it is about the database, and whether that is past reading.
    database: Option<bool>,
    /// Whether the disk or its permissions do not allow to write.
    unwritable: bool,
}

impl LedgerError {
    pub(crate) fn new(
        reason: LedgerErrorKind,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let (message, hint) = (message.into(), hint.into());
        Self { reason, message, hint, similar: Vec::new(), database: None, unwritable: false }
    }

    /// Makes an error about a name that does not exist.
    pub(crate) fn not_found(message: String, similar: Vec<String>, otherwise: &str) -> Self {
        let told = RegistryError::not_found(message, similar, otherwise);
        Self {
            similar: told.similar,
            ..Self::new(LedgerErrorKind::NotFound, told.message, told.hint)
        }
    }

    /// Makes an error about a name that stands for several; `candidates` are some of them.
    pub(crate) fn ambiguous(message: String, candidates: Vec<String>) -> Self {
        let hint = format!("give more of it: {}", candidates.join(", "));
        Self { similar: candidates, ..Self::new(LedgerErrorKind::Ambiguous, message, hint) }
    }

    /// Makes an error about a file or directory the system refused.
    pub(crate) fn io(doing: &str, path: &Path, error: &io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "make room on the disk and try again"
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "give the process permission to write there"
            }
            _ => "the disk needs attention; try again when it is well",
        };
        let message = format!("{} cannot be {doing}: {error}", path.display());
        let refused = matches!(
            error.kind(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
        );
        Self { unwritable: refused, ..Self::new(LedgerErrorKind::Io, message, hint) }
    }

    /// Says that the disk or its permissions do not allow to write.
    pub(crate) fn refused_to_write(self) -> Self {
        Self { unwritable: true, ..self }
    }

    pub(crate) fn is_unwritable(&self) -> bool {
        self.unwritable
    }

    /// Makes an error about the database; the message begins with "the database".
    pub(crate) fn database(
        reason: LedgerErrorKind,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { database: Some(false), ..Self::new(reason, message, hint) }
    }

    /// Makes an error about a database that cannot be read as one.
    pub(crate) fn corrupt(message: String) -> Self {
        let hint = "restore the file from a backup, or move it away to have it rebuilt";
        Self { database: Some(true), ..Self::new(LedgerErrorKind::Database, message, hint) }
    }

    /// Makes an error about a stored text that no longer has its digest; `what` names whose it is.
    pub(crate) fn damaged_text(what: &str, path: &Path, digest: Digest, otherwise: &str) -> Self {
        let message = format!(
            "{what}: the stored text of {} is damaged: it does not have the digest {digest}",
            path.display()
        );
        let hint = format!("put a file with this digest at {}, or {otherwise}", path.display());
        Self::new(LedgerErrorKind::Corrupt, message, hint)
    }

    pub(crate) fn is_corrupt(&self) -> bool {
        self.database == Some(true)
    }

    /// Adds to the message.
    pub(crate) fn with_detail(mut self, more: &str) -> Self {
        self.message.push_str(more);
        self
    }

    /// Names the database's file, where the error is about it.
    pub(crate) fn with_path(mut self, path: &Path) -> Self {
        if self.database.is_some() {
            self.message = format!("{}: {}", path.display(), self.message);
        }
        self
    }

    /// Returns the kind of failure as it is named on the wire.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self.reason {
            LedgerErrorKind::NotFound => ErrorKind::NotFound,
            LedgerErrorKind::Ambiguous | LedgerErrorKind::Argument | LedgerErrorKind::Invalid => {
                ErrorKind::InvalidArgument
            }
            LedgerErrorKind::Denied | LedgerErrorKind::Quota => ErrorKind::Denied,
            LedgerErrorKind::TooLarge => ErrorKind::TooLarge,
            LedgerErrorKind::DoesNotApply
            | LedgerErrorKind::State
            | LedgerErrorKind::Digest
            | LedgerErrorKind::Stale
            | LedgerErrorKind::Conflict => ErrorKind::Conflict,
            LedgerErrorKind::Locked
            | LedgerErrorKind::Newer
            | LedgerErrorKind::Corrupt
            | LedgerErrorKind::Database
            | LedgerErrorKind::Io => ErrorKind::Io,
        }
    }

    /// Returns what it was refused for.
    #[must_use]
    pub fn reason(&self) -> LedgerErrorKind {
        self.reason
    }

    /// Returns what to do about it.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// Returns up to three names that may have been meant.
    #[must_use]
    pub fn similar(&self) -> &[String] {
        &self.similar
    }
}

impl From<LedgerError> for RegistryError {
    fn from(error: LedgerError) -> Self {
        let kind = error.kind();
        Self { kind, message: error.message, hint: error.hint, similar: error.similar }
    }
}
