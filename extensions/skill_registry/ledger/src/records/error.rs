//! Errors of the ledger.

use std::io;
use std::path::Path;

use skill_catalog::{Advice, NextStep, RegistryError};
use skill_format::Digest;
use skillhost_files::LockError;
use skillhost_payload::ErrorKind;

/// The reason of a ledger error, more detailed than [`ErrorKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LedgerErrorKind {
    /// The skill, proposal, file or version does not exist.
    NotFound,
    /// The prefix of an id matches several proposals.
    Ambiguous,
    /// An argument is missing, malformed or contradicts another.
    Argument,
    /// The path must not be written.
    Denied,
    /// A text exceeds its limit.
    TooLarge,
    /// The number of open proposals has reached its limit.
    Quota,
    /// The diff does not apply.
    DoesNotApply,
    /// The new text is not a valid skill.
    Invalid,
    /// The state of the proposal does not allow the operation.
    State,
    /// The change of an agent fails the check of changes.
    Refused,
    /// The digest differs from that of the reviewed text.
    Digest,
    /// The file is no longer the base of the proposal.
    Stale,
    /// The files changed while they were written.
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

/// An error of the ledger, with a hint for the next step.
///
/// No data was changed unless the message states it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LedgerError {
    reason: LedgerErrorKind,
    message: String,
    hint: Advice,
    similar: Vec<String>,
    /// `Some` if the error is about the database; `true` if the database is damaged.
    database: Option<bool>,
    /// `true` if the disk or its permissions do not allow writing.
    unwritable: bool,
}

impl LedgerError {
    /// Creates an error that is not about the database.
    pub fn new(
        reason: LedgerErrorKind,
        message: impl Into<String>,
        hint: impl Into<Advice>,
    ) -> Self {
        let (message, hint) = (message.into(), hint.into());
        Self { reason, message, hint, similar: Vec::new(), database: None, unwritable: false }
    }

    /// Creates the error for a name that does not exist.
    pub(crate) fn not_found(
        message: String,
        similar: Vec<String>,
        otherwise: impl Into<Advice>,
    ) -> Self {
        let wire = RegistryError::not_found(message, similar, otherwise);
        Self {
            similar: wire.similar,
            ..Self::new(LedgerErrorKind::NotFound, wire.message, wire.hint)
        }
    }

    /// Creates the error for a name that matches several entries; `candidates` are some of them.
    pub(crate) fn ambiguous(message: String, candidates: Vec<String>) -> Self {
        let hint = format!("give more characters: {}", candidates.join(", "));
        Self { similar: candidates, ..Self::new(LedgerErrorKind::Ambiguous, message, hint) }
    }

    /// Creates the error for a file or directory on which a system call failed.
    pub(crate) fn io(doing: &str, path: &Path, error: &io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free space on the disk, then try again"
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "give the process write permission"
            }
            _ => "check the disk, then try again",
        };
        let message = format!("{} cannot be {doing}: {error}", path.display());
        // Such errors persist; callers then read the database as it is instead.
        let unwritable = matches!(
            error.kind(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
        );
        Self { unwritable, ..Self::new(LedgerErrorKind::Io, message, hint) }
    }

    /// Marks the error as caused by a disk or permissions that do not allow writing.
    pub(crate) fn with_unwritable(self) -> Self {
        Self { unwritable: true, ..self }
    }

    pub(crate) fn is_unwritable(&self) -> bool {
        self.unwritable
    }

    /// Creates an error of the database; the message begins with "the database".
    pub(crate) fn database(
        reason: LedgerErrorKind,
        message: impl Into<String>,
        hint: impl Into<Advice>,
    ) -> Self {
        Self { database: Some(false), ..Self::new(reason, message, hint) }
    }

    /// Creates the error for a file that is not a readable database.
    pub(crate) fn corrupt(message: String) -> Self {
        let hint = "restore the file from a backup, or move it away to have it rebuilt";
        Self { database: Some(true), ..Self::new(LedgerErrorKind::Database, message, hint) }
    }

    /// Creates the error for a stored text that no longer has its digest; `what` names its owner.
    pub(crate) fn damaged_text(
        what: &str,
        path: &Path,
        digest: Digest,
        otherwise: impl Into<Advice>,
    ) -> Self {
        let message = format!(
            "{what}: the stored text of {} is damaged: it does not have the digest {digest}",
            path.display()
        );
        let hint = Advice::from(format!("put a file with this digest at {}, or ", path.display()))
            .with_advice(otherwise.into());
        Self::new(LedgerErrorKind::Corrupt, message, hint)
    }

    pub(crate) fn is_corrupt(&self) -> bool {
        self.database == Some(true)
    }

    /// Appends a detail to the message.
    pub(crate) fn with_detail(mut self, more: &str) -> Self {
        self.message.push_str(more);
        self
    }

    /// Prefixes the message with the path of the database, if the error is about the database.
    pub(crate) fn with_path(mut self, path: &Path) -> Self {
        if self.database.is_some() {
            self.message = format!("{}: {}", path.display(), self.message);
        }
        self
    }

    /// Returns the kind of error that is used on the wire.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self.reason {
            LedgerErrorKind::NotFound => ErrorKind::NotFound,
            LedgerErrorKind::Ambiguous
            | LedgerErrorKind::Argument
            | LedgerErrorKind::Invalid
            | LedgerErrorKind::Refused => ErrorKind::InvalidArgument,
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

    /// Returns the reason.
    #[must_use]
    pub fn reason(&self) -> LedgerErrorKind {
        self.reason
    }

    /// Returns the hint for the next step.
    #[must_use]
    pub fn hint(&self) -> &Advice {
        &self.hint
    }

    /// Returns up to three similar names.
    #[must_use]
    pub fn similar(&self) -> &[String] {
        &self.similar
    }
}

impl From<LockError> for LedgerError {
    fn from(error: LockError) -> Self {
        match &error {
            LockError::Io { path, source } => Self::io("locked", path, source),
            LockError::Held { .. } => {
                let hint = "try again; end that process if it hangs";
                Self::new(LedgerErrorKind::Locked, error.to_string(), hint)
            }
        }
    }
}

/// Returns the advice to rebase a proposal.
pub(crate) fn rebase_advice(id: &str) -> Advice {
    Advice::from("run ")
        .with_step(NextStep::RebaseProposal { id: id.to_owned() })
        .with_text(" to rebase it onto the current file")
}

impl From<LedgerError> for RegistryError {
    fn from(error: LedgerError) -> Self {
        let kind = error.kind();
        Self { kind, message: error.message, hint: error.hint, similar: error.similar }
    }
}
