//! The commands of this repository, as `cargo xtask …`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "commands for people")]

mod bench;
mod build_times;
mod demo;
mod deny;
mod docs;
mod eval;
mod file_transfer;
mod install;
mod o200k;
mod package;
mod peers;
mod process;
mod test;
mod vendor;
mod workspace;

use std::path::PathBuf;
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
    /// Build everything in release and show a session on a copy of sandbox/
    Demo,
    /// Run the last steps of the demo with a real model
    Flow(demo::FlowArgs),
    /// Run everything CI runs: fmt, clippy, tests, doc tests
    Test,
    /// Measure and compare with a minimal program; no number fails it
    Bench(bench::BenchArgs),
    /// Measure the skill search on labeled tasks
    Eval(eval::EvalArgs),
    /// Install the binary, libraries, manifests, skills and the SDK's sources
    Install(install::InstallArgs),
    /// Make an archive, a Debian package and a container image of the installed files
    Package(package::PackageArgs),
    /// Measure a cold build and rebuilds after a change; fail above a limit
    BuildTimes(build_times::BuildTimesArgs),
    /// Check the links of the documentation and build it as a book in target/book
    Docs,
    /// Draw the screens in docs/images, and the pages of the console in target/screenshots
    Screenshots,
    /// Check licenses, sources and advisories, if cargo-deny is installed
    Deny,
    /// Test `skillhost mcp` with third-party clients; requires a network
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

fn main() -> ExitCode {
    if let Some(log) = std::env::var_os(build_times::COMPILER_LOG) {
        return build_times::run_compiler(&log);
    }
    let result = match XtaskCli::parse().command {
        XtaskCommand::Demo => demo::cmd_demo(),
        XtaskCommand::Flow(args) => demo::cmd_flow(&args),
        XtaskCommand::Test => test::cmd_test(),
        XtaskCommand::Bench(args) => bench::cmd_bench(&args),
        XtaskCommand::Eval(args) => eval::cmd_eval(&args),
        XtaskCommand::Install(args) => install::cmd_install(&args),
        XtaskCommand::Package(args) => package::cmd_package(&args),
        XtaskCommand::BuildTimes(args) => build_times::cmd_build_times(&args),
        XtaskCommand::Screenshots => docs::cmd_screenshots(),
        XtaskCommand::Docs => docs::cmd_docs(),
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
