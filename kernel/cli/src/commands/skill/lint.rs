//! `skillhost skill lint`.

use crate::cli::LintArgs;
use crate::error::CliError;
use crate::output::Outcome;
use crate::session::Session;

pub(super) fn lint(_session: &Session, _args: &LintArgs) -> Outcome {
    Err(CliError::usage("not built yet"))
}
