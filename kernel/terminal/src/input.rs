//! Text from arguments and standard input.

use std::io::{self, Read as _};

use crate::error::CliError;

/// Returns the argument, or standard input if the argument is `-`.
///
/// # Errors
/// Standard input cannot be read.
pub fn text_or_stdin(argument: &str) -> Result<String, CliError> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}
