//! `skillhost skill cost`.

use crate::cli::CostArgs;
use crate::error::CliError;
use crate::output::Outcome;
use crate::session::Session;

pub(super) fn cost(_session: &Session, _args: &CostArgs) -> Outcome {
    Err(CliError::usage("not built yet"))
}
