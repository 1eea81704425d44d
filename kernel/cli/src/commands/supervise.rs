//! `skillhost run --supervised`: a parent that starts the kernel again.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use skillhost_kernel::supervision::{Backoff, Ended, Next, SUPERVISED, SupervisorLock};
use tokio::process::{Child, Command};
use tokio::signal::unix::{self, SignalKind, signal};

use crate::error::CliError;
use crate::exit;
use crate::output::{DIM, Outcome, Output, queue};
use crate::session::Session;

pub(super) fn supervise(session: &Session) -> Outcome {
    // What the supervisor says must not keep it from its work.
    queue::install(session.output.json);
    let home = session.trusted_home()?;
    let settings = session.settings(&home)?.settings.supervisor;
    let _lock = SupervisorLock::take(&home)?;
    // Asked for now: a new version may be put in its place while this one runs.
    let kernel = Program { path: std::env::current_exe()?, arguments: arguments() };
    // On this thread: the kernel is told when the thread that started it is gone.
    session.block_on(async {
        let mut told =
            Told { int: signal(SignalKind::interrupt())?, term: signal(SignalKind::terminate())? };
        let (began, mut backoff) = (Instant::now(), Backoff::new(settings));
        loop {
            let (status, ending) = run(&kernel, &mut told).await?;
            if ending || status.code() == Some(0) {
                return Ok(code(status).unwrap_or(exit::OK));
            }
            let Some(wait) = after(session.output, &mut backoff, began.elapsed(), status)? else {
                return Ok(code(status).unwrap_or(exit::IO));
            };
            tokio::select! {
                biased;
                _ = told.next() => return Ok(exit::OK),
                () = tokio::time::sleep(wait) => {}
            }
        }
    })?
}

/// Whether the process that started this one supervises it. From then on this one is told to end
/// when that one is gone.
pub(crate) fn is_supervised() -> bool {
    let id = std::env::var(SUPERVISED).ok().and_then(|id| id.parse().ok());
    let Some(supervisor) = id.and_then(Pid::from_raw) else { return false };
    let is_parent = || rustix::process::getppid() == Some(supervisor);
    if !is_parent() {
        // Inherited by way of somebody else.
        return false;
    }
    end_with_parent();
    // It may have gone just before.
    is_parent()
}

#[cfg(target_os = "linux")]
fn end_with_parent() {
    // Without it the kernel goes on alone, as one that nobody supervises.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
}

#[cfg(not(target_os = "linux"))]
fn end_with_parent() {}

/// What is started again and again.
struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
}

impl Program {
    fn start(&self) -> Result<Child, CliError> {
        Command::new(&self.path)
            .args(&self.arguments)
            .env(SUPERVISED, std::process::id().to_string())
            .spawn()
            .map_err(|error| CliError::io(&self.path, &error))
    }
}

/// What the kernel is started with: all that this process was, but that it supervises.
fn arguments() -> Vec<OsString> {
    std::env::args_os().skip(1).filter(|argument| argument != "--supervised").collect()
}

/// The signals that end a kernel.
struct Told {
    int: unix::Signal,
    term: unix::Signal,
}

impl Told {
    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.int.recv() => Signal::INT,
            _ = self.term.recv() => Signal::TERM,
        }
    }
}

/// Runs the kernel to its end, and says whether it was told to end.
async fn run(program: &Program, told: &mut Told) -> Result<(ExitStatus, bool), CliError> {
    let mut child = program.start()?;
    let mut ending = false;
    loop {
        tokio::select! {
            biased;
            status = child.wait() => return Ok((status?, ending)),
            signal = told.next() => {
                ending = true;
                let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
                if let Some(id) = id {
                    // It may have ended just now.
                    let _ = kill_process(id, signal);
                }
            }
        }
    }
}

fn code(status: ExitStatus) -> Option<u8> {
    status.code().and_then(|code| u8::try_from(code).ok())
}

/// What follows an end that nobody told it to: a wait, or nothing where another start would end the
/// same way.
fn after(
    output: Output,
    backoff: &mut Backoff,
    now: Duration,
    status: ExitStatus,
) -> Result<Option<Duration>, CliError> {
    let how = match code(status) {
        // The kernel has said what is wrong: with its settings, its home, another one that runs.
        Some(exit::USAGE | exit::NOT_FOUND | exit::CONFLICT) => return Ok(None),
        Some(exit::RESTART) => Ended::Asked,
        _ => Ended::Crashed,
    };
    let what = match (code(status), status.signal()) {
        (Some(exit::RESTART), _) => "asked to be started again".to_owned(),
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, signal) => format!("was killed by signal {}", signal.unwrap_or_default()),
    };
    match backoff.ended(how, now) {
        Next::Again(wait) if wait.is_zero() => {
            tell(output, "supervisor.restarting", &what, &json!({ "reason": what, "wait_ms": 0 }))?;
            Ok(Some(wait))
        }
        Next::Again(wait) => {
            let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            let line = format!("{what}; it is started again in {ms} ms");
            tell(
                output,
                "supervisor.restarting",
                &line,
                &json!({ "reason": what, "wait_ms": ms }),
            )?;
            Ok(Some(wait))
        }
        Next::Stop(times) => {
            let message = format!(
                "the kernel {what}, the {} time within minutes; it is not started again",
                ordinal(times)
            );
            Err(CliError::new(exit::CRASHED, message).hint(
                "see what it said before it ended, with --log info if need be\n\
                 see: skillhost ext doctor",
            ))
        }
    }
}

fn ordinal(number: usize) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// One line among those of the kernel's events.
fn tell(output: Output, event: &str, line: &str, payload: &Value) -> Result<(), CliError> {
    match output.json {
        true => output.object(&json!({
            "event": event,
            "source": "supervisor",
            "payload": payload,
        })),
        false => output.line(format!("{DIM}supervisor{DIM:#} the kernel {line}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_said() {
        let said: Vec<_> = [1, 2, 3, 5, 11, 12, 21, 112].map(ordinal).into();
        assert_eq!(said, ["1st", "2nd", "3rd", "5th", "11th", "12th", "21st", "112th"]);
    }
}
