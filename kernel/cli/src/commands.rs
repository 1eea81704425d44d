//! One file per command; this one reads the command line and picks.

mod agent;
mod ask;
mod chat;
mod config;
mod durable;
mod events;
mod export;
mod ext;
mod ext_approve;
mod ext_build;
mod ext_new;
mod init;
mod man;
mod mcp;
mod models;
mod run;
mod schedule;
mod schema;
mod skill;
mod skills_ref;
mod supervise;
mod talk;
mod threads;
mod tool;
mod trust;

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, Parser as _};
use tracing_subscriber::EnvFilter;

use crate::cli::{Cli, Command, CompletionsArgs, Global};
use crate::error::CliError;
use crate::exit;
use crate::output::queue::{self, LogWriter};
use crate::output::{Outcome, Output};
use crate::session::Session;
pub(crate) use supervise::{SupervisorLink, is_supervised};

/// How long a process that ends waits for whoever reads its output.
const OUTPUT_LIMIT: Duration = Duration::from_secs(1);

/// Runs the command named on the command line.
pub(crate) fn main() -> ExitCode {
    if let Some((program, arguments)) = as_reference_tool() {
        return ended(skills_ref::run(&program, &arguments), Output { json: false });
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    let output = Output { json: cli.global.json };
    ended(run(&cli), output)
}

/// Returns the name and the arguments if the program is invoked through a link with a name of the
/// reference tool.
fn as_reference_tool() -> Option<(String, Vec<OsString>)> {
    let mut arguments = std::env::args_os();
    let program = arguments.next()?;
    let name = skills_ref::invoked_as(&program)?.to_owned();
    Some((name, arguments.collect()))
}

fn ended(outcome: Outcome, output: Output) -> ExitCode {
    let code = outcome.unwrap_or_else(|error| {
        output.error(&error);
        error.code()
    });
    queue::flush(OUTPUT_LIMIT);
    if let Some(supervisor) = SupervisorLink::of_this_process() {
        supervisor.ended(code);
    }
    ExitCode::from(code)
}

/// Ends after `--help` and `--version`, and after arguments that make no sense: those are told in
/// the form that was asked for, as far as that can be known.
fn refused(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && std::env::args_os().any(|argument| argument == "--json") {
        let text = error.render().to_string();
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let message = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let told = lines.fold(CliError::usage(message), CliError::hint);
        Output { json: true }.error(&told);
        return ExitCode::from(exit::USAGE);
    }
    error.exit()
}

fn run(cli: &Cli) -> Outcome {
    hide_memory();
    log_to_stderr(&cli.global)?;
    let session = Session::new(&cli.global)?;
    match &cli.command {
        Command::Run(args) if args.supervised => supervise::supervise(&session),
        Command::Run(_) => run::run(&session),
        Command::Ask(args) => ask::ask(&session, args),
        Command::Chat(args) => chat::chat(&session, args),
        Command::Threads(command) => threads::threads(&session, command),
        Command::Events(command) => events::events(&session, command),
        Command::Agent(command) => agent::agent(&session, command),
        Command::Ext(command) => ext::ext(&session, command),
        Command::Schedule(command) => schedule::schedule(&session, command),
        Command::Tool(command) => tool::tool(&session, command),
        Command::Skill(command) => skill::skill(&session, command),
        Command::Export(args) => export::export(&session, args),
        Command::Mcp(args) => mcp::mcp(&session, args),
        Command::Models(command) => models::models(&session, command),
        Command::Config => config::config(&session),
        Command::Schema(args) => schema::schema(args),
        Command::Init(args) => init::init(&session, args),
        Command::Trust(args) => trust::trust(&session, args),
        Command::Completions(args) => completions(args),
        Command::Man(args) => man::man(&session, args),
    }
}

/// The variable that leaves the process open to debuggers and core dumps.
const DUMPABLE: &str = "SKILLHOST_DUMPABLE";

/// Keeps other processes of the same user, such as those of extensions, from reading the environment
/// and the memory of this one through `/proc`: both may hold keys. Programs that it starts are not
/// affected.
fn hide_memory() {
    #[cfg(target_os = "linux")]
    if std::env::var_os(DUMPABLE).is_none_or(|value| value != "1") {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // It is one protection of several, and nothing is known to refuse it.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

fn log_to_stderr(global: &Global) -> Result<(), CliError> {
    // What a client of the MCP server does wrong is told to the client, and what goes wrong with a
    // model is an error of whoever asked it.
    let filter =
        EnvFilter::try_new(format!("rmcp=error,genai=off,{}", global.log)).map_err(|error| {
            CliError::usage(format!("--log {}: {error}", global.log))
                .hint("such as `info`, or `warn,extension=debug`")
        })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| LogWriter);
    if global.log_json {
        builder.json().init();
    } else {
        builder.without_time().init();
    }
    Ok(())
}

fn completions(args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "skillhost", &mut script);
    Output { json: false }.verbatim(&String::from_utf8_lossy(&script))?;
    Ok(exit::OK)
}

/// The argument itself, or standard input where it is `-`.
fn text_or_stdin(argument: &str) -> Result<String, CliError> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
