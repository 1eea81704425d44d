//! Starting other programs.

use std::ffi::OsStr;
use std::process::Command;
use std::time::Instant;

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde::{Deserialize, Serialize};

use crate::workspace::{Result, root};

/// Returns a cargo command in the repository's root.
pub(crate) fn cargo_command<I: AsRef<OsStr>>(arguments: impl IntoIterator<Item = I>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    command
}

/// Prints a command, runs it, and fails if it fails.
pub(crate) fn run_command(command: &mut Command) -> Result<()> {
    println!("\n$ {}", display_command(command));
    run_quietly(command)
}

/// Runs a command and fails if it fails.
pub(crate) fn run_quietly(command: &mut Command) -> Result<()> {
    let status =
        command.status().map_err(|error| format!("{}: {error}", display_command(command)))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{}: {status}", display_command(command)).into())
    }
}

/// Formats the command as a user would type it.
pub(crate) fn display_command(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy());
    std::iter::once(name).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// The resource usage of one run of a command.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct CommandUsage {
    /// CPU time of user and system, in milliseconds.
    pub(crate) cpu_ms: f64,
    /// Elapsed time, in milliseconds.
    pub(crate) wall_ms: f64,
    /// Peak resident memory, in KiB.
    pub(crate) peak_kib: i64,
}

/// Runs one command as this process's only child, so that the usage of children is its usage.
pub(crate) fn measure_command(command: &[String]) -> Result<()> {
    let (program, arguments) = command.split_first().ok_or("no command")?;
    let started = Instant::now();
    let mut child = Command::new(program);
    child.args(arguments).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let status = child.status().map_err(|error| format!("{}: {error}", display_command(&child)))?;
    // A check that found something exits with 1.
    if !matches!(status.code(), Some(0 | 1)) {
        return Err(format!("{}: {status}", display_command(&child)).into());
    }
    let wall_ms = started.elapsed().as_secs_f64() * 1e3;
    let used = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let usage = CommandUsage { cpu_ms: cpu_ms(&used), wall_ms, peak_kib: used.max_rss() };
    println!("{}", serde_json::to_string(&usage)?);
    Ok(())
}

fn cpu_ms(used: &Usage) -> f64 {
    let ms = |time: TimeVal| time.tv_sec() as f64 * 1e3 + time.tv_usec() as f64 / 1e3;
    ms(used.user_time()) + ms(used.system_time())
}

/// Returns the CPU time of all children that have ended, and of theirs, in milliseconds.
pub(crate) fn children_cpu_ms() -> Result<f64> {
    Ok(cpu_ms(&getrusage(UsageWho::RUSAGE_CHILDREN)?))
}

/// Runs one command in a process of its own that measures it.
pub(crate) fn usage_of(command: &[String]) -> Result<CommandUsage> {
    let output =
        Command::new(std::env::current_exe()?).arg("measure").arg("--").args(command).output()?;
    if !output.status.success() {
        return Err(
            format!("{}: {}", command.join(" "), String::from_utf8_lossy(&output.stderr)).into()
        );
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
