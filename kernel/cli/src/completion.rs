//! Completion of commands, options and ids in a shell.
//!
//! The script of a shell calls the program for each completion, with the line so far. Ids are read
//! from the home of that line as far as this is possible without loading an extension; an error
//! yields no candidates and no message, which would appear within the line.

#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Command, CommandFactory as _};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, Shell};
use skillhost_control::{ControlRequest, ToolListing};
use skillhost_terminal::{CliContext, GlobalArgs, display_safe, suppress_notes};

use crate::cli::Cli;
use crate::known_ids::{self, KnownId};

/// The variable with the name of the shell that requests completions.
const VARIABLE: &str = "SKILLHOST_COMPLETE";

/// The number of characters of a description.
const MAX_DESCRIPTION: usize = 60;

/// A source of ids, which may leave out those that do not start with the given text.
type IdSource = fn(&CliContext, &str) -> Vec<KnownId>;

/// The arguments that take an id: the command, the argument, and the ids.
const ARGUMENTS: &[(&[&str], &str, IdSource)] = &[
    (&["agent", "show"], "id", agents),
    (&["ask"], "agent", agents),
    (&["ask"], "model", models),
    (&["ask"], "thread", known_ids::threads),
    (&["channel", "pair"], "agent", agents),
    (&["channel", "pair"], "id", extensions),
    (&["channel", "peers"], "id", extensions),
    (&["channel", "revoke"], "id", extensions),
    (&["channel", "test"], "id", extensions),
    (&["chat"], "agent", agents),
    (&["chat"], "model", models),
    (&["chat"], "thread", known_ids::threads),
    (&["extension", "approve"], "id", extensions),
    (&["extension", "build"], "id", extensions),
    (&["extension", "reload"], "id", extensions),
    (&["extension", "revoke"], "id", extensions),
    (&["extension", "rollback"], "id", extensions),
    (&["inbox", "answer"], "id", questions),
    (&["inbox", "approve"], "id", questions),
    (&["inbox", "refuse"], "id", questions),
    (&["inbox", "show"], "id", questions),
    (&["model", "check"], "names", models),
    (&["schedule", "run"], "id", schedules),
    (&["skill", "approve"], "id", skills),
    (&["skill", "approve-scripts"], "id", skills),
    (&["skill", "audit-log"], "skill", skills),
    (&["skill", "call"], "id", skills),
    (&["skill", "diff"], "skill", skills),
    (&["skill", "disable"], "ids", skills),
    (&["skill", "enable"], "ids", skills),
    (&["skill", "explain"], "agent", agents),
    (&["skill", "export"], "ids", skills),
    (&["skill", "history"], "skill", skills),
    (&["skill", "lint"], "explain", rules),
    (&["skill", "optimize"], "judge", models),
    (&["skill", "optimize"], "model", models),
    (&["skill", "optimize"], "skill", skills),
    (&["skill", "proposal", "approve"], "id", proposals),
    (&["skill", "proposal", "list"], "skill", skills),
    (&["skill", "proposal", "rebase"], "id", proposals),
    (&["skill", "proposal", "reject"], "id", proposals),
    (&["skill", "proposal", "review"], "id", proposals),
    (&["skill", "read"], "id", skills),
    (&["skill", "render"], "skill", skills),
    (&["skill", "rollback"], "skill", skills),
    (&["skill", "rules"], "rules", rules),
    (&["skill", "run"], "id", skills),
    (&["skill", "show"], "id", skills),
    (&["task", "cancel"], "id", tasks),
    (&["task", "list"], "root", tasks),
    (&["task", "logs"], "id", tasks),
    (&["task", "retry"], "id", tasks),
    (&["task", "show"], "id", tasks),
    (&["task", "submit"], "after", tasks),
    (&["task", "submit"], "words", agents),
    (&["thread", "delete"], "ids", known_ids::threads),
    (&["thread", "show"], "id", known_ids::threads),
    (&["tool", "call"], "name", tools),
    (&["tool", "list"], "agent", agents),
    (&["tool", "show"], "name", tools),
];

/// Prints the completions that a shell requests; `None` if none does.
pub(crate) fn complete_if_requested() -> Option<ExitCode> {
    std::env::var_os(VARIABLE)?;
    let here = std::env::current_dir().ok();
    let completed = CompleteEnv::with_factory(completed_command)
        .var(VARIABLE)
        .try_complete(std::env::args_os(), here.as_deref());
    match completed {
        Ok(false) => None,
        Ok(true) | Err(_) => Some(ExitCode::SUCCESS),
    }
}

/// Returns the script that makes a shell request completions.
pub(crate) fn render_script(shell: Shell) -> std::io::Result<String> {
    let mut script = Vec::new();
    if let Some(completer) = Shells::builtins().completer(&shell.to_string()) {
        let name = Cli::command().get_name().to_owned();
        completer.write_registration(VARIABLE, &name, &name, &name, &mut script)?;
    }
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// Returns the command line with the sources of ids.
fn completed_command() -> Command {
    suppress_notes();
    ARGUMENTS.iter().fold(Cli::command(), |command, (path, argument, source)| {
        add_source(command, path, argument, *source)
    })
}

fn add_source(command: Command, path: &[&str], argument: &str, source: IdSource) -> Command {
    match path {
        // `mut_arg` would move a positional argument behind the others.
        [] => command.mut_args(|known| match known.get_id() == argument {
            true => known.add(ArgValueCompleter::new(move |word: &OsStr| candidates(source, word))),
            false => known,
        }),
        [name, rest @ ..] => {
            command.mut_subcommand(name, |below| add_source(below, rest, argument, source))
        }
    }
}

fn candidates(source: IdSource, word: &OsStr) -> Vec<CompletionCandidate> {
    // No id has other characters.
    let Some(word) = word.to_str() else { return Vec::new() };
    let mut global = GlobalArgs::default();
    global.home = named_home(std::env::args_os());
    let session = CliContext::new(&global, skillhost_bundle::find_installation);
    let Ok(session) = session else { return Vec::new() };
    let matching = source(&session, word).into_iter().filter(|known| known.id.starts_with(word));
    let candidates = matching.filter(|known| display_safe(&known.id) == known.id);
    candidates.map(|known| CompletionCandidate::new(&known.id).help(describe(&known))).collect()
}

fn describe(known: &KnownId) -> Option<clap::builder::StyledStr> {
    let line = display_safe(known.about.lines().next().unwrap_or_default()).replace('\t', " ");
    let text: String = line.chars().take(MAX_DESCRIPTION).collect();
    (!text.is_empty()).then(|| text.into())
}

/// Returns the home that the line names; the variable and the parent directories are looked at later.
fn named_home(words: impl Iterator<Item = OsString>) -> Option<PathBuf> {
    let mut words = words.skip_while(|word| word != "--").skip(1);
    while let Some(word) = words.next() {
        if word == "--home" {
            return words.next().map(PathBuf::from);
        }
        let joined = word.to_str().and_then(|word| word.strip_prefix("--home="));
        if let Some(home) = joined {
            return Some(PathBuf::from(home));
        }
    }
    None
}

fn agents(session: &CliContext, _: &str) -> Vec<KnownId> {
    known_ids::agents(session)
}

fn extensions(session: &CliContext, _: &str) -> Vec<KnownId> {
    known_ids::extensions(session)
}

fn models(session: &CliContext, _: &str) -> Vec<KnownId> {
    known_ids::models(session)
}

fn schedules(session: &CliContext, _: &str) -> Vec<KnownId> {
    known_ids::schedules(session)
}

fn skills(session: &CliContext, _: &str) -> Vec<KnownId> {
    to_known(skill_commands::skill_ids(session))
}

fn proposals(session: &CliContext, _: &str) -> Vec<KnownId> {
    to_known(skill_commands::proposal_ids(session))
}

fn rules(_: &CliContext, _: &str) -> Vec<KnownId> {
    to_known(skill_commands::rule_ids())
}

fn questions(session: &CliContext, _: &str) -> Vec<KnownId> {
    to_known(skillhost_operations::question_ids(session))
}

fn tasks(session: &CliContext, _: &str) -> Vec<KnownId> {
    to_known(skillhost_operations::task_ids(session))
}

fn to_known(ids: Vec<(String, String)>) -> Vec<KnownId> {
    ids.into_iter().map(|(id, about)| KnownId { id, about }).collect()
}

/// Returns the tools if a kernel runs; to start one takes too long.
fn tools(session: &CliContext, _: &str) -> Vec<KnownId> {
    let Ok(home) = session.trusted_home() else { return Vec::new() };
    let request = ControlRequest::Tools { agent: None };
    let listing = session.try_running_kernel::<ToolListing>(&home, &request);
    let tools = listing.ok().flatten().map(|listing| listing.tools).unwrap_or_default();
    tools.into_iter().map(|it| KnownId { id: it.spec.name, about: it.spec.description }).collect()
}
