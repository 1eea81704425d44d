//! The registry's errors in words for users.

use skill_catalog::{ErrorKind as RegistryErrorKind, RegistryError};
use skill_store::LedgerError;
use skillhost_payload::ErrorKind;
use skillhost_terminal::CliError;

/// Converts an error of the registry's tools.
#[expect(clippy::needless_pass_by_value, reason = "the argument of `map_err`")]
pub(crate) fn registry_error(error: RegistryError) -> CliError {
    // The hints address models, which call tools; users run commands.
    let hint = error
        .hint
        .replace("list_skills shows", "`skillhost skill list` shows")
        .replace("read_skill lists", "`skillhost skill show` lists");
    CliError::from_kind(to_call_kind(error.kind), &error.message, &hint)
}

/// Converts an error of the ledger.
pub(crate) fn ledger_error(error: LedgerError) -> CliError {
    let mut error = RegistryError::from(error);
    // The ledger omits the program's name in its commands.
    error.hint = error.hint.replace("`skill ", "`skillhost skill ");
    registry_error(error)
}

fn to_call_kind(kind: RegistryErrorKind) -> ErrorKind {
    match kind {
        RegistryErrorKind::NotFound => ErrorKind::NotFound,
        RegistryErrorKind::InvalidArgument => ErrorKind::InvalidArgument,
        RegistryErrorKind::Denied => ErrorKind::Denied,
        RegistryErrorKind::TooLarge => ErrorKind::TooLarge,
        RegistryErrorKind::Conflict => ErrorKind::Conflict,
        RegistryErrorKind::Io => ErrorKind::Io,
    }
}
