//! `skillhost skill new`.

use crate::cli::NewArgs;
use crate::error::CliError;
use crate::output::Outcome;
use crate::session::Session;

pub(super) fn new(_session: &Session, _args: &NewArgs) -> Outcome {
    Err(CliError::usage("not built yet"))
}
