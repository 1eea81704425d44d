//! Additions to the help: examples, and the commands about skills by task.
//!
//! They are added where help, manual pages or the reference are printed; other commands start without
//! them.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use super::Cli;

/// The examples: a section per command, with comments and command lines.
const EXAMPLES: &str = include_str!("examples.txt");

/// The commands of `skill`, by task.
const SKILL_TASKS: &[(&str, &[&str])] = &[
    ("Find and read", &["list", "search", "show", "read", "render"]),
    (
        "Write and check",
        &[
            "new", "validate", "lint", "test", "optimize", "lsp", "fmt", "rules", "cost", "graph",
            "roles",
        ],
    ),
    ("Offer to agents", &["enable", "disable", "doctor", "explain", "export"]),
    ("Run", &["run", "call", "approve-scripts"]),
    ("Approve changes", &["proposal", "approve", "audit-log"]),
    ("Versions and use", &["history", "diff", "rollback", "prune", "stats"]),
    ("Reference tool", &["read-properties", "to-prompt"]),
];

/// The heading of commands without a task.
const OTHER_TASKS: &str = "Others";

/// Returns the command line with examples in its help.
pub(crate) fn documented_command() -> Command {
    let mut command = Cli::command();
    for (path, examples) in command_examples() {
        let path: Vec<&str> = path.split(' ').collect();
        command = change_command(command, &path, &|command| add_examples(command, examples));
    }
    command
}

/// Returns the command line for printing help: [`documented_command`], with the commands of `skill`
/// grouped by task.
pub(crate) fn help_command() -> Command {
    change_command(documented_command(), &["skill"], &group_by_task)
}

/// Returns the examples of each command, by its path below the program.
pub(crate) fn command_examples() -> BTreeMap<&'static str, &'static str> {
    let sections = EXAMPLES.split("\n[").map(|section| section.trim_start_matches('['));
    sections.filter_map(|section| section.split_once("]\n")).collect()
}

/// Applies a change to a subcommand; a path that does not exist is left out, as a test checks all.
fn change_command(command: Command, path: &[&str], change: &dyn Fn(Command) -> Command) -> Command {
    match path {
        [] => change(command),
        [name, _rest @ ..] if command.find_subcommand(name).is_none() => command,
        [name, rest @ ..] => {
            command.mut_subcommand(name, |below| change_command(below, rest, change))
        }
    }
}

fn add_examples(command: Command, examples: &str) -> Command {
    let mut help = "Examples:".to_owned();
    for line in examples.trim_end().lines() {
        // Writing to a `String` cannot fail.
        let _ = write!(help, "\n  {line}");
    }
    if let Some(text) = command.get_after_help() {
        let _ = write!(help, "\n\n{}", text.ansi());
    }
    command.after_help(help)
}

/// Lists the subcommands of `skill` by task, instead of one long list.
pub(crate) fn group_by_task(command: Command) -> Command {
    let styles = command.get_styles().clone();
    let (heading, literal) = (styles.get_header(), styles.get_literal());
    let shown: Vec<&Command> =
        command.get_subcommands().filter(|below| !below.is_hide_set()).collect();
    let width = shown.iter().map(|below| below.get_name().len()).max().unwrap_or_default();
    let listed = |name: &str| SKILL_TASKS.iter().any(|(_, names)| names.contains(&name));
    let others: Vec<&str> =
        shown.iter().map(|below| below.get_name()).filter(|name| !listed(name)).collect();
    let tasks = SKILL_TASKS.iter().map(|(task, names)| (*task, names.to_vec()));
    let mut text = String::new();
    for (task, names) in tasks.chain([(OTHER_TASKS, others)]) {
        let below = names.iter().filter_map(|name| shown.iter().find(|it| it.get_name() == *name));
        let mut lines = String::new();
        for below in below {
            let name = below.get_name();
            let about = below.get_about().map(ToString::to_string).unwrap_or_default();
            let aliases: Vec<&str> = below.get_visible_aliases().collect();
            let aliases = match aliases.as_slice() {
                [] => String::new(),
                aliases => format!(" [alias: {}]", aliases.join(", ")),
            };
            let _ = writeln!(lines, "  {literal}{name:width$}{literal:#}  {about}{aliases}");
        }
        if !lines.is_empty() {
            let _ = write!(text, "{heading}{task}:{heading:#}\n{lines}\n");
        }
    }
    let names: Vec<String> = shown.iter().map(|below| below.get_name().to_owned()).collect();
    let usage = "skillhost skill [OPTIONS] <COMMAND>";
    let template = format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}{{all-args}}\
         {{after-help}}"
    );
    let command = command.help_template(template).override_usage(usage);
    // The template has them already.
    names
        .iter()
        .fold(command, |command, name| command.mut_subcommand(name, |below| below.hide(true)))
}
