//! `skillhost skill fmt`.

use crate::cli::FmtArgs;
use crate::error::CliError;
use crate::output::Outcome;
use crate::session::Session;

pub(super) fn fmt(_session: &Session, _args: &FmtArgs) -> Outcome {
    Err(CliError::usage("not built yet"))
}
