//! The check that `docs/cli.md` equals the program's help.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Command, CommandFactory as _};

use crate::cli::Cli;

/// Renders the help of a command and its subcommands as Markdown.
fn render_command_help(command: &mut Command, path: &str, text: &mut String) {
    let name = format!("{path} {}", command.get_name()).trim_start().to_owned();
    let help = command.clone().bin_name(&name).term_width(98).render_help().to_string();
    // Global options apply to every command and are listed once, at the top.
    let visible_help = if path.is_empty() {
        &*help
    } else {
        help.split("\nGlobal options:").next().unwrap_or(&help)
    };
    let level = "#".repeat(2 + name.split(' ').count().saturating_sub(2).min(1));
    let help: Vec<_> = visible_help.lines().map(|line| line.trim_end().to_owned()).collect();
    let _ = write!(text, "\n{level} `{name}`\n\n```text\n{}\n```\n", help.join("\n").trim_end());
    let below: Vec<_> = command.get_subcommands().cloned().collect();
    let is_shown = |command: &Command| command.get_name() != "help" && !command.is_hide_set();
    for mut command in below.into_iter().filter(is_shown) {
        render_command_help(&mut command, &name, text);
    }
}

#[test]
fn reference_matches_help() {
    let mut command = Cli::command();
    command.build();
    let mut text = "# Command line\n\nGenerated from the program's help; \
        `UPDATE_DOCS=1 cargo test -p skillhost` renews it.\n"
        .to_owned();
    render_command_help(&mut command, "", &mut text);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == text, "docs/cli.md is old; UPDATE_DOCS=1 cargo test -p skillhost renews it");
}
