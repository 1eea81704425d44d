//! `skillhost skill render`.

use crate::cli::RenderArgs;
use crate::error::CliError;
use crate::output::Outcome;
use crate::session::Session;

pub(super) fn render(_session: &Session, _args: &RenderArgs) -> Outcome {
    Err(CliError::usage("not built yet"))
}
