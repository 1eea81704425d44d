//! `skillhost skill validate`.

use crate::cli::ValidateArgs;
use crate::error::CliError;
use crate::output::Outcome;
use crate::session::Session;

pub(super) fn validate(_session: &Session, _args: &ValidateArgs) -> Outcome {
    Err(CliError::usage("not built yet"))
}
