//! The errors of the registry, with commands for the steps that they advise.

use skill_catalog::RegistryError;
use skillhost_terminal::CliError;

/// Converts an error of the registry or of its ledger.
pub(crate) fn registry_error(error: impl Into<RegistryError>) -> CliError {
    let error = error.into();
    let hint = error.hint.to_words(|step| format!("`{}`", step.command()));
    CliError::from_kind(error.kind, &error.message, &hint)
}
