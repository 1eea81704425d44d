//! The result of a command.

use std::time::Duration;

use serde_json::json;
use serde_json::value::to_raw_value;
use skillhost_payload::ToolOutput;
use skillhost_policy::SandboxPolicy;
use skillhost_sandbox::{EndCause, ProcessExit, SandboxedExit};

use crate::MAX_STDOUT;
use crate::proposal::propose_settings;

/// The signal of a file that is too large.
const SIGXFSZ: i32 = 25;

/// The bytes of the start and of the end of standard output that are kept.
const HEAD: usize = 12 << 10;
const TAIL: usize = 24 << 10;

/// The end of a command, contained or not.
struct CommandEnd<'a> {
    command: &'a str,
    /// What has ended it.
    how: String,
    time: Duration,
    /// The directory and the containment.
    place: String,
    /// Lines after the output.
    notes: Vec<String>,
    stdout: String,
    stderr: String,
}

/// Formats the exit of a command that was not contained.
pub(crate) fn format_exit(
    command: &str,
    directory: &str,
    exit: &ProcessExit,
    time: Duration,
) -> ToolOutput {
    let mut stdout = shorten(&String::from_utf8_lossy(&exit.stdout));
    if exit.stdout.len() >= MAX_STDOUT {
        stdout.push_str("\n[all after this was left out: the output was too long]\n");
    }
    let code = exit.status.code();
    let structured = json!({
        "exit_code": code,
        "signal": exit.signal(),
        "stdout": stdout,
        "stderr": exit.stderr,
        "duration_ms": u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        "contained": false,
    });
    let end = CommandEnd {
        command,
        how: describe_exit(code, exit.signal()),
        time,
        place: format!("{directory}; not contained: it ran with the user's permissions"),
        notes: Vec::new(),
        stdout,
        stderr: exit.stderr.clone(),
    };
    end.into_output(&structured, !exit.status.success())
}

/// Formats the exit of a contained command.
pub(crate) fn format_contained(
    command: &str,
    directory: &str,
    exit: &SandboxedExit,
    policy: &SandboxPolicy,
) -> ToolOutput {
    let (all_out, all_err) =
        (String::from_utf8_lossy(&exit.stdout), String::from_utf8_lossy(&exit.stderr));
    let (stdout, stderr) = (shorten(&all_out), shorten(&all_err));
    let end = &exit.end;
    let has_failed = end.exit_code != Some(0) || end.ended_by.is_some();
    let mut notes = Vec::new();
    if !end.reverted.is_empty() {
        let files: Vec<_> = end.reverted.iter().take(8).map(ToString::to_string).collect();
        let more = end.reverted.len() - files.len() + end.more_reverted;
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        notes.push(format!("protected files: {}{more}", files.join("; ")));
    }
    if end.left_over > 0 {
        notes.push(format!("{} processes that it had left were ended", end.left_over));
    }
    let proposal = match has_failed {
        true => propose_settings(&all_err, policy).or_else(|| propose_settings(&all_out, policy)),
        false => None,
    };
    if let Some(settings) = &proposal {
        notes.push(format!(
            "the containment may be the reason; the user can allow more in skillhost.yaml:\n{settings}"
        ));
    }
    let time = Duration::from_millis(end.ms);
    let how = match end.ended_by {
        Some(EndCause::Disk) if end.signal == Some(SIGXFSZ) => {
            format!("ended by the limit of {} MiB for a file (`fileMib`)", policy.limits.file_mib)
        }
        Some(cause) => describe_limit(cause, policy),
        None => describe_exit(end.exit_code, end.signal),
    };
    let structured = json!({
        "exit_code": end.exit_code,
        "signal": end.signal,
        "ended_by": end.ended_by,
        "stdout": stdout,
        "stderr": stderr,
        "duration_ms": end.ms,
        "contained": true,
        "isolation": exit.isolation,
        "reverted": end.reverted,
        "more_reverted": end.more_reverted,
        "proposed_settings": proposal,
    });
    let place = format!("{directory}; contained at isolation level {}", exit.isolation.level);
    let end = CommandEnd { command, how, time, place, notes, stdout, stderr };
    end.into_output(&structured, has_failed)
}

fn describe_exit(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

fn describe_limit(cause: EndCause, policy: &SandboxPolicy) -> String {
    let limits = &policy.limits;
    let optional = |limit: Option<u64>| limit.unwrap_or_default();
    match cause {
        EndCause::Time => format!("ended by the time limit of {} s", optional(limits.seconds)),
        EndCause::Memory => format!("ended by the memory limit of {} MiB", limits.memory_mib),
        EndCause::Tasks => format!("ended by the limit of {} processes", limits.tasks),
        EndCause::Disk => {
            format!("ended by the limit of {} MiB or {} files", limits.disk_mib, limits.files)
        }
        EndCause::Output => {
            format!("ended by the output limit of {} KiB", optional(limits.output_kib))
        }
        EndCause::Cancelled => "cancelled".to_owned(),
    }
}

impl CommandEnd<'_> {
    fn into_output(self, structured: &serde_json::Value, is_error: bool) -> ToolOutput {
        let first = self.command.lines().next().unwrap_or_default();
        let more = if first.len() < self.command.len() { " …" } else { "" };
        let mut text = format!(
            "{} after {:.1} s: {first}{more}\n[in {}]\n",
            self.how,
            self.time.as_secs_f64(),
            self.place
        );
        for note in &self.notes {
            text.push_str(&format!("[{note}]\n"));
        }
        for (name, stream) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !stream.is_empty() {
                let end = if stream.ends_with('\n') { "" } else { "\n" };
                text.push_str(&format!("--- {name}\n{stream}{end}"));
            }
        }
        ToolOutput {
            text,
            structured: to_raw_value(structured).ok(),
            is_error,
            ..ToolOutput::default()
        }
    }
}

/// Keeps the start and the end of a long text.
fn shorten(text: &str) -> String {
    if text.len() <= HEAD + TAIL {
        return text.to_owned();
    }
    let (head, tail) = (text.floor_char_boundary(HEAD), text.ceil_char_boundary(text.len() - TAIL));
    format!("{}\n[{} bytes left out]\n{}", &text[..head], tail - head, &text[tail..])
}
