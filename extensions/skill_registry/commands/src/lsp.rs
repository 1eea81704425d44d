//! `skillhost skill lsp`: a language server for editors.

use std::io::{BufReader, stdin};

use skill_lsp::{ServerEnd, serve};
use skillhost_terminal::{CliContext, CommandResult, exit};

pub(super) fn cmd_skill_lsp(session: &CliContext) -> CommandResult {
    let end = serve(
        BufReader::new(stdin()),
        session.output.buffered(),
        &session.environment.current_dir,
    )?;
    Ok(match end {
        ServerEnd::Shutdown => exit::OK,
        ServerEnd::Abandoned => exit::FINDINGS,
    })
}
