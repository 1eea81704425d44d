//! `skillhost skill doctor`.

use crate::cli::DoctorArgs;
use crate::error::CliError;
use crate::output::Outcome;
use crate::session::Session;

pub(super) fn doctor(_session: &Session, _args: &DoctorArgs) -> Outcome {
    Err(CliError::usage("not built yet"))
}
