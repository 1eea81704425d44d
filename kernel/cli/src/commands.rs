//! The commands of the program, one file each; this file parses the command line and dispatches.

mod agent;
mod ask;
mod config;
mod console;
mod event_text;
mod events;
mod ext;
mod ext_approve;
mod ext_build;
mod ext_isolation;
mod ext_new;
mod man;
mod mcp;
mod models;
mod paged;
mod run;
mod schedule;
mod schema;
pub(crate) mod supervise;
mod threads;
mod tool;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use clap::error::ErrorKind;
use skillhost_bundle::expand_log_filter;
use skillhost_home::Home;
use skillhost_operations::{
    WaitingReviews, cmd_backup, cmd_channel, cmd_inbox, cmd_init, cmd_logs, cmd_restore,
    cmd_service, cmd_status, cmd_stop, cmd_task, cmd_trust, mirror_proposals,
};
use skillhost_terminal::{
    CliContext, CliError, ColorArg, CommandResult, LogFileWriter, LogWriter, Output, exit,
    hold_output, queue, suppress_notes,
};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

use crate::cli::help::help_command;
use crate::cli::{Cli, CompletionsArgs, ConfigArgs, ConfigCommand, TopLevelCommand};
use crate::completion;
use crate::in_process::with_own_kernel;
use crate::kernel_session::request_from_kernel;
use crate::known_ids::expand_ids;
use crate::model_tests::{run_skill_optimization, run_skill_tests};
use crate::review_ledger::HomeReviewLedger;

/// The time a finished process waits for its output to be read.
const OUTPUT_LIMIT: Duration = Duration::from_secs(1);

/// Runs the command named on the command line.
pub(crate) fn main() -> ExitCode {
    if let Some(code) = completion::complete_if_requested() {
        return code;
    }
    if let Some((program, arguments)) = reference_tool_args() {
        return to_exit_code(
            skill_commands::run_reference_tool(&program, &arguments),
            Output { json: false },
        );
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return report_clap_error(&with_full_help(error)),
    };
    let output = Output { json: cli.global.json };
    to_exit_code(run(cli), output)
}

/// Returns the name and the arguments if a link named like the reference tool invoked the program.
fn reference_tool_args() -> Option<(String, Vec<OsString>)> {
    let mut arguments = std::env::args_os();
    let program = arguments.next()?;
    let name = skill_commands::reference_tool_name(&program)?.to_owned();
    Some((name, arguments.collect()))
}

fn to_exit_code(outcome: CommandResult, output: Output) -> ExitCode {
    let code = outcome.unwrap_or_else(|error| {
        output.print_error(&error);
        error.code()
    });
    queue::flush(OUTPUT_LIMIT);
    if let Some(supervisor) = supervise::SupervisorLink::of_this_process() {
        supervisor.ended(code);
    }
    ExitCode::from(code)
}

/// Returns the error whose text is the help with examples, if the error is a request for help.
fn with_full_help(error: clap::Error) -> clap::Error {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            help_command().try_get_matches().err().unwrap_or(error)
        }
        _ => error,
    }
}

/// Reports a parse error, or prints help and version. The output has the requested format, as far
/// as the failed arguments reveal it.
fn report_clap_error(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && std::env::args_os().any(|argument| argument == "--json") {
        let text = error.render().to_string();
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let message = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let cli_error = lines.fold(CliError::usage(message), CliError::with_hint);
        Output { json: true }.print_error(&cli_error);
        return ExitCode::from(exit::USAGE);
    }
    error.exit()
}

fn run(mut cli: Cli) -> CommandResult {
    hide_memory();
    set_color(cli.global.color);
    if cli.global.quiet {
        suppress_notes();
    }
    start_log(&cli)?;
    let session = CliContext::new(&cli.global, skillhost_bundle::find_installation)?;
    expand_ids(&session, &mut cli.command)?;
    if !cli.global.json && paged::is_paged(&cli.command) {
        hold_output();
    }
    let outcome = dispatch(&session, &cli.command);
    // An error of the command is printed below its output.
    session.show_held_output();
    outcome
}

fn dispatch(session: &CliContext, command: &TopLevelCommand) -> CommandResult {
    match command {
        TopLevelCommand::Run(args) if args.supervised => supervise::cmd_supervise(session),
        TopLevelCommand::Run(args) => run::cmd_run(session, args),
        TopLevelCommand::Status => cmd_status(session, &|home| waiting_reviews(session, home)),
        TopLevelCommand::Stop => cmd_stop(session),
        TopLevelCommand::Console(args) => console::cmd_console(session, args),
        TopLevelCommand::Logs(args) => cmd_logs(session, args),
        TopLevelCommand::Backup(args) => cmd_backup(session, args),
        TopLevelCommand::Restore(args) => cmd_restore(session, args),
        TopLevelCommand::Service(command) => cmd_service(session, command),
        TopLevelCommand::Ask(args) => ask::cmd_ask(session, args),
        TopLevelCommand::Chat(args) => skillhost_chat::cmd_chat(session, args, &|choice, work| {
            with_own_kernel(session, choice, work)
        }),
        TopLevelCommand::Thread(command) => threads::cmd_threads(session, command),
        TopLevelCommand::Task(command) => cmd_task(session, command),
        TopLevelCommand::Inbox(command) => {
            cmd_inbox(session, command, &HomeReviewLedger::new(session))
        }
        TopLevelCommand::Channel(command) => cmd_channel(session, command),
        TopLevelCommand::Event(command) => events::cmd_events(session, command),
        TopLevelCommand::Agent(command) => agent::cmd_agent(session, command),
        TopLevelCommand::Extension(command) => ext::cmd_ext(session, command),
        TopLevelCommand::Schedule(command) => schedule::cmd_schedule(session, command),
        TopLevelCommand::Tool(command) => tool::cmd_tool(session, command),
        TopLevelCommand::Skill(command) => {
            let outcome = skill_commands::cmd_skill(
                session,
                command,
                &|request| request_from_kernel(session, request),
                skill_commands::ModelRunners {
                    tests: &|request| run_skill_tests(session, request),
                    optimizations: &|request, screen| {
                        run_skill_optimization(session, request, screen)
                    },
                },
            );
            // After a failure, too: an interactive review may have decided before.
            if command.uses_proposals() {
                mirror_proposals(session, &HomeReviewLedger::new(session));
            }
            outcome
        }
        TopLevelCommand::Export(args) => skill_commands::cmd_export(session, args),
        TopLevelCommand::Mcp(args) => mcp::cmd_mcp(session, args),
        TopLevelCommand::Model(command) => models::cmd_models(session, command),
        TopLevelCommand::Config(ConfigArgs { command: None | Some(ConfigCommand::Show) }) => {
            config::cmd_config(session)
        }
        TopLevelCommand::Schema(args) => schema::cmd_schema(args),
        TopLevelCommand::Init(args) => cmd_init(session, args),
        TopLevelCommand::Trust(args) => cmd_trust(session, args),
        TopLevelCommand::Completions(args) => completions(args),
        TopLevelCommand::Man(args) => man::cmd_man(session, args),
    }
}

/// Returns the decisions about the skills of a home that wait for the user.
fn waiting_reviews(session: &CliContext, home: &Home) -> Result<WaitingReviews, CliError> {
    let (proposals, skills) = skill_commands::waiting_reviews(session, home)?;
    Ok(WaitingReviews { proposals, skills })
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
        // One protection of several: the kernel starts without it, too.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

/// Applies `--color`; without it, the terminal and its variables decide.
fn set_color(color: ColorArg) {
    match color {
        ColorArg::Auto => {}
        ColorArg::Always => anstream::ColorChoice::Always.write_global(),
        ColorArg::Never => anstream::ColorChoice::Never.write_global(),
    }
}

/// Logs to standard error, and the kernel of `run` also to the log file of its home.
fn start_log(cli: &Cli) -> Result<(), CliError> {
    let global = &cli.global;
    let to_stderr = fmt::layer().with_writer(|| LogWriter);
    let to_stderr = match global.has_json_log() {
        true => to_stderr.json().with_filter(log_filter(global.log_filter())?).boxed(),
        false => to_stderr.without_time().with_filter(log_filter(global.log_filter())?).boxed(),
    };
    let is_kernel = matches!(&cli.command, TopLevelCommand::Run(args) if !args.supervised);
    let to_file = match is_kernel {
        true => {
            let filter = log_filter(global.log_file_filter())?;
            Some(fmt::layer().with_writer(|| LogFileWriter).json().with_filter(filter))
        }
        false => None,
    };
    tracing_subscriber::registry().with(to_stderr).with(to_file).init();
    Ok(())
}

fn log_filter(filter: &str) -> Result<EnvFilter, CliError> {
    // The MCP client gets its own errors in the reply, and a model error reaches its caller as a
    // value.
    EnvFilter::try_new(format!("rmcp=error,genai=off,{}", expand_log_filter(filter))).map_err(
        |error| {
            CliError::usage(format!("--log {filter}: {error}"))
                .with_hint("such as `info`, or `warn,extension=debug`")
        },
    )
}

fn completions(args: &CompletionsArgs) -> CommandResult {
    Output { json: false }.print_text(&completion::render_script(args.shell)?)?;
    Ok(exit::OK)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
