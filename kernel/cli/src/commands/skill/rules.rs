//! `skillhost skill rules`.

use crate::cli::RulesArgs;
use crate::error::CliError;
use crate::output::Outcome;
use crate::session::Session;

pub(super) fn rules(_session: &Session, _args: &RulesArgs) -> Outcome {
    Err(CliError::usage("not built yet"))
}
