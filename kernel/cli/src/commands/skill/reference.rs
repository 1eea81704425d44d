//! `skillhost skill read-properties` and `to-prompt`.

use crate::cli::{ReferenceArgs, ToPromptArgs};
use crate::error::CliError;
use crate::output::Outcome;
use crate::session::Session;

pub(super) fn read_properties(_session: &Session, _args: &ReferenceArgs) -> Outcome {
    Err(CliError::usage("not built yet"))
}

pub(super) fn to_prompt(_session: &Session, _args: &ToPromptArgs) -> Outcome {
    Err(CliError::usage("not built yet"))
}
