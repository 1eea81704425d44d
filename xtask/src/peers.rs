//! `cargo xtask peers`: third-party clients and test suites against `skillhost mcp`.
//!
//! Optional, and never a part of `cargo xtask test`: it installs from npm, PyPI and crates.io into a
//! separate directory. A tool that cannot be installed or started is SKIPPED, with the reason. Every client
//! gets a separate home directory and a dummy key; the model behind it is a script on loopback.

mod check;
mod linter;
mod result_row;
mod setup;
mod task_server;

use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::process::run_command;
use crate::workspace::{Result, root, target};
use check::PeerChecks;
use linter::compare_lint;
use result_row::{CheckVerdict, PeerRow};
use setup::InstalledTools;

#[derive(Debug, Args)]
pub(crate) struct PeersArgs {
    /// Directory of the installed peers [default: peers in cargo's target directory]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Serve this directory of skills instead of the shipped ones
    #[arg(long, value_name = "DIR")]
    skills: Option<PathBuf>,
    /// The built program [default: a debug build, built first]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// Installs the missing peers, runs every check, prints a table; fails if a check failed.
pub(crate) fn cmd_peers(args: &PeersArgs) -> Result<()> {
    let dir = args.dir.clone().unwrap_or_else(|| target().join("peers"));
    std::fs::create_dir_all(&dir)?;
    let dir = std::fs::canonicalize(dir)?;
    let program = match &args.program {
        Some(program) => std::fs::canonicalize(program)?,
        None => {
            run_command(Command::new(env!("CARGO")).current_dir(root()).args([
                "build",
                "-p",
                "skillhost",
            ]))?;
            std::fs::canonicalize(target().join("debug/skillhost"))?
        }
    };
    let skills = args.skills.clone().unwrap_or_else(|| root().join("sandbox/skills"));
    let skills = std::fs::canonicalize(skills)?;
    let tools = InstalledTools::install(&dir);
    let mut rows = PeerChecks::new(&dir, &program, &skills, &tools)?.run();
    rows.push(PeerRow {
        peer: "agnix",
        check: "CPU time of `skill lint` on the skills".into(),
        verdict: compare_lint(&program, &tools.linter, &skills, args.program.is_some()),
    });
    print(&rows)
}

fn print(rows: &[PeerRow]) -> Result<()> {
    println!("\n{:<12} {:<46} verdict", "peer", "check");
    let mut failed = 0;
    for PeerRow { peer, check, verdict } in rows {
        let (word, reason) = match verdict {
            CheckVerdict::Passed(note) => ("passed", note),
            CheckVerdict::Skipped(reason) => ("SKIPPED", reason),
            CheckVerdict::Failed(reason) => {
                failed += 1;
                ("FAILED", reason)
            }
        };
        println!("{peer:<12} {check:<46} {word:<8} {reason}");
    }
    if failed == 0 { Ok(()) } else { Err(format!("{failed} checks failed").into()) }
}
