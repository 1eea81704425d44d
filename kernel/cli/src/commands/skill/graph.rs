//! `skillhost skill graph`.

use crate::cli::GraphArgs;
use crate::error::CliError;
use crate::output::Outcome;
use crate::session::Session;

pub(super) fn graph(_session: &Session, _args: &GraphArgs) -> Outcome {
    Err(CliError::usage("not built yet"))
}
