//! The errors of the registry, with commands for the steps that they advise.

use skill_catalog::{NextStep, RegistryError};
use skillhost_terminal::CliError;

/// Converts an error of the registry or of its ledger.
pub(crate) fn registry_error(error: impl Into<RegistryError>) -> CliError {
    let error = error.into();
    let hint = error.hint.to_words(to_command);
    CliError::from_kind(error.kind, &error.message, &hint)
}

/// Returns the command that takes a step.
fn to_command(step: &NextStep) -> String {
    match step {
        NextStep::ListSkills => "`skillhost skill list`".to_owned(),
        NextStep::ReadSkill => "`skillhost skill show`".to_owned(),
        NextStep::ShowHistory => "`skillhost skill history`".to_owned(),
        NextStep::RollBackSkill { id } => format!("`skillhost skill rollback {id}`"),
        NextStep::ListProposals => "`skillhost skill proposal list --all`".to_owned(),
        NextStep::ReviewProposals => "`skillhost skill proposal review`".to_owned(),
        NextStep::RebaseProposal { id } => format!("`skillhost skill proposal rebase {id}`"),
        NextStep::RejectProposal { id } => format!("`skillhost skill proposal reject {id}`"),
    }
}
