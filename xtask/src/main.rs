//! The commands of this repository, as `cargo xtask …`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "commands for people")]

mod bench;
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
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build everything in release and show the main job on a copy of sandbox/
    Demo,
    /// Have a real model do what the demo's script does at its end; needs the model
    Flow(demo::FlowArgs),
    /// Run everything CI runs: fmt, clippy, tests, doc tests
    Test,
    /// Measure against the floor; prints a table and never fails on a number
    Bench(bench::BenchArgs),
    /// Measure how well skills are found, on labelled tasks
    Eval(eval::EvalArgs),
    /// Install the binary, libraries, manifests, skills and the SDK's sources
    Install(install::InstallArgs),
    /// Make a tar archive of what `install` installs
    Package,
    /// Check licences, sources and advisories, where cargo-deny is installed
    Deny,
    /// Try `skillhost mcp` with other people's clients, installed from npm and PyPI; needs network
    Peers(peers::PeersArgs),
    /// Make the vocabulary of skill-tokens from OpenAI's `o200k_base.tiktoken`
    O200k {
        /// The published file
        published: PathBuf,
    },
    /// Run one command and print what it used, as JSON
    #[command(hide = true)]
    Measure {
        /// The command
        #[arg(trailing_var_arg = true, required = true)]
        command: Vec<String>,
    },
}

/// Why a command failed; already fit for a person.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Demo => demo::demo(),
        Command::Flow(args) => demo::flow(&args),
        Command::Test => test::test(),
        Command::Bench(args) => bench::bench(&args),
        Command::Eval(args) => eval::eval(&args),
        Command::Install(args) => install::install(&args),
        Command::Package => install::package(),
        Command::Deny => deny::deny(),
        Command::Peers(args) => peers::peers(&args),
        Command::O200k { published } => o200k::o200k(&published),
        Command::Measure { command } => process::measure(&command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.parent().unwrap_or(folder).to_owned()
}

/// Where cargo builds to.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |dir| root().join(dir))
}
