//! `skillhost skill triads`.

use crate::cli::TriadsArgs;
use crate::error::CliError;
use crate::output::Outcome;
use crate::session::Session;

pub(super) fn triads(_session: &Session, _args: &TriadsArgs) -> Outcome {
    Err(CliError::usage("not built yet"))
}
