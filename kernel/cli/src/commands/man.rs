//! `skillhost man`: manual pages, generated from the help texts.

use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap_mangen::Man;
use serde_json::json;
use skillhost_terminal::{CliContext, CliError, CommandResult, display_safe, exit};

use crate::cli::{Cli, ManArgs};

pub(super) fn cmd_man(session: &CliContext, args: &ManArgs) -> CommandResult {
    let dir = session.environment.current_dir.join(&args.dir);
    std::fs::create_dir_all(&dir).map_err(|error| CliError::io(&args.dir, &error))?;
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    write(&command, &dir, &mut pages).map_err(|error| CliError::io(&args.dir, &error))?;
    let place = args.dir.display().to_string();
    if session.output.json {
        let names: Vec<_> = pages.iter().filter_map(|page| page.file_name()?.to_str()).collect();
        session.output.print_json(&json!({ "dir": place, "pages": names }))?;
    } else {
        session.output.print_line(format!("{} pages in {}", pages.len(), display_safe(&place)))?;
    }
    Ok(exit::OK)
}

/// Writes the page of a command and of each of its subcommands.
fn write(command: &clap::Command, dir: &Path, pages: &mut Vec<PathBuf>) -> std::io::Result<()> {
    pages.push(Man::new(command.clone()).generate_to(dir)?);
    let mut below = command.get_subcommands().filter(|below| !below.is_hide_set());
    below.try_for_each(|below| write(below, dir, pages))
}
