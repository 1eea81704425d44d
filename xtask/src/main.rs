//! The commands of this repository, as `cargo xtask …`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "commands for people")]

mod bench;
mod build_times;
mod demo;
mod deny;
mod eval;
mod install;
mod o200k;
mod peers;
mod process;
mod test;
mod vendor;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The commands of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct XtaskCli {
    #[command(subcommand)]
    command: XtaskCommand,
}

#[derive(Debug, Subcommand)]
enum XtaskCommand {
    /// Build everything in release and show the main job on a copy of sandbox/
    Demo,
    /// Run the end of the demo with a real model
    Flow(demo::FlowArgs),
    /// Run everything CI runs: fmt, clippy, tests, doc tests
    Test,
    /// Measure against the floor; prints a table and never fails on a number
    Bench(bench::BenchArgs),
    /// Measure the skill search on labelled tasks
    Eval(eval::EvalArgs),
    /// Install the binary, libraries, manifests, skills and the SDK's sources
    Install(install::InstallArgs),
    /// Create a tar archive of the installed files
    Package,
    /// Measure a cold build, crate by crate; fails above a limit
    BuildTimes(build_times::BuildTimesArgs),
    /// Check licences, sources and advisories, where cargo-deny is installed
    Deny,
    /// Try `skillhost mcp` with other people's clients, installed from npm and PyPI; needs network
    Peers(peers::PeersArgs),
    /// Create the vocabulary of skill-tokens from OpenAI's `o200k_base.tiktoken`
    O200k {
        /// The published file
        published: PathBuf,
    },
    /// Run one command and print its resource usage as JSON
    #[command(hide = true)]
    Measure {
        /// The command
        #[arg(trailing_var_arg = true, required = true)]
        command: Vec<String>,
    },
}

/// The result of a command; the error is printed for the user as it is.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let result = match XtaskCli::parse().command {
        XtaskCommand::Demo => demo::cmd_demo(),
        XtaskCommand::Flow(args) => demo::cmd_flow(&args),
        XtaskCommand::Test => test::cmd_test(),
        XtaskCommand::Bench(args) => bench::cmd_bench(&args),
        XtaskCommand::Eval(args) => eval::cmd_eval(&args),
        XtaskCommand::Install(args) => install::cmd_install(&args),
        XtaskCommand::Package => install::cmd_package(),
        XtaskCommand::BuildTimes(args) => build_times::cmd_build_times(&args),
        XtaskCommand::Deny => deny::cmd_deny(),
        XtaskCommand::Peers(args) => peers::cmd_peers(&args),
        XtaskCommand::O200k { published } => o200k::cmd_o200k(&published),
        XtaskCommand::Measure { command } => process::measure_command(&command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the root of the repository.
fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.parent().unwrap_or(folder).to_owned()
}

/// Returns the directory that cargo builds to.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |dir| root().join(dir))
}
