//! `skillhost man`: manual pages, generated from the help texts.

use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap_mangen::Man;
use serde_json::json;
use skillhost_files::write_atomically;
use skillhost_terminal::{CliContext, CliError, CommandResult, display_safe, exit};

use crate::cli::help::command_examples;
use crate::cli::{Cli, ManArgs};

pub(super) fn cmd_man(session: &CliContext, args: &ManArgs) -> CommandResult {
    let dir = session.environment.current_dir.join(&args.dir);
    std::fs::create_dir_all(&dir).map_err(|error| CliError::io(&args.dir, &error))?;
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    write(&command, "", &dir, &mut pages).map_err(|error| CliError::io(&args.dir, &error))?;
    let place = args.dir.display().to_string();
    if session.output.json {
        let names: Vec<_> = pages.iter().filter_map(|page| page.file_name()?.to_str()).collect();
        session.output.print_json(&json!({ "dir": place, "pages": names }))?;
    } else {
        session.output.print_line(format!("{} pages in {}", pages.len(), display_safe(&place)))?;
    }
    Ok(exit::OK)
}

/// Writes the page of a command and of each of its subcommands; `path` is the command's path below
/// the program.
fn write(
    command: &clap::Command,
    path: &str,
    dir: &Path,
    pages: &mut Vec<PathBuf>,
) -> std::io::Result<()> {
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    if let Some(examples) = command_examples().get(path) {
        text.extend(render_examples(examples).into_bytes());
    }
    let file = dir.join(page.get_filename());
    write_atomically(&file, &text)?;
    pages.push(file);
    let mut below = command.get_subcommands().filter(|below| !below.is_hide_set());
    below.try_for_each(|below| {
        write(below, format!("{path} {}", below.get_name()).trim(), dir, pages)
    })
}

/// Renders examples as a section whose lines are kept as they are.
fn render_examples(examples: &str) -> String {
    let mut section = ".SH EXAMPLES\n.nf\n".to_owned();
    for line in examples.trim_end().lines() {
        // A line that starts with a dot or a quote would be a request to the formatter.
        let guard = if line.starts_with(['.', '\'']) { "\\&" } else { "" };
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        section.push_str(&format!("{guard}{line}\n"));
    }
    section + ".fi\n"
}
