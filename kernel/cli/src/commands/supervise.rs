//! `skillhost run --supervised`: a parent process that restarts the kernel.

mod link;

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use skillhost_control::{
    ExitCause, RestartBackoff, RestartDecision, RestartLimits, SUPERVISED, SupervisorLock,
};
use skillhost_files::{LogLimits, RotatedLog};
use skillhost_home::{Home, SupervisorSettings};
use skillhost_sandbox::exit_with_parent;
use skillhost_terminal::{CliContext, CliError, CommandResult, DIM, Output, exit, queue};
use tokio::process::{Child, Command};
use tokio::signal::unix::{self, SignalKind, signal};
use tokio::time::sleep_until;

pub(crate) use link::SupervisorLink;
use link::{KernelLink, KernelSign};

use crate::failures::supervisor_lock_error;

/// The time limit for a kernel's shutdown, longer than the kernel's own limit.
const END_LIMIT: Duration = Duration::from_secs(70);

/// The minimum timeout of a silent kernel, which sends a heartbeat every second.
const MIN_SILENCE: Duration = Duration::from_secs(3);

pub(super) fn cmd_supervise(session: &CliContext) -> CommandResult {
    // A blocked output must not block the supervisor.
    queue::install(session.output.json);
    let home = session.trusted_home()?;
    let settings = session.settings(&home)?.settings.supervisor;
    // Clients that lose the kernel check this lock: while it is held, they wait for a restart.
    let _lock = SupervisorLock::acquire(&home).map_err(supervisor_lock_error)?;
    // Resolved now: an update may replace the file while this process runs.
    let kernel = KernelCommand { path: std::env::current_exe()?, arguments: arguments() };
    // On this thread: the parent-death signal is sent when the thread that started the kernel ends.
    session.block_on(Box::pin(async {
        let mut signals = ShutdownSignals {
            int: signal(SignalKind::interrupt())?,
            term: signal(SignalKind::terminate())?,
        };
        let (began, mut backoff) = (Instant::now(), RestartBackoff::new(restart_limits(settings)));
        loop {
            let silence = Duration::from_millis(settings.silence_ms).max(MIN_SILENCE);
            let end = run(&kernel, &mut signals, silence).await?;
            let code = code(end.status);
            // A zero code without a report comes from native code in the kernel and counts as a
            // crash.
            if end.shutdown_requested || (code == Some(exit::OK) && end.in_order()) {
                return Ok(code.unwrap_or(exit::OK));
            }
            log_kernel_end(&home, &end);
            let Some(wait) = restart_delay(session.output, &mut backoff, began.elapsed(), &end)?
            else {
                return Ok(code.unwrap_or(exit::IO));
            };
            tokio::select! {
                biased;
                // A signal during the backoff ends the supervisor at once: no kernel runs.
                _ = signals.next() => return Ok(exit::OK),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }))?
}

fn restart_limits(settings: SupervisorSettings) -> RestartLimits {
    RestartLimits {
        crashes: settings.crashes,
        within: Duration::from_millis(settings.within_ms),
        delay: Duration::from_millis(settings.delay_ms),
    }
}

/// Returns whether the parent process supervises this one. From then on this process receives a
/// signal when its parent ends.
pub(crate) fn is_supervised() -> bool {
    if supervisor().is_none() {
        return false;
    }
    exit_with_parent();
    // The parent may have ended before the signal was set up.
    supervisor().is_some()
}

/// Returns the supervisor of this process: its parent, unless the variable was inherited through
/// another process.
fn supervisor() -> Option<Pid> {
    let id = std::env::var(SUPERVISED).ok().and_then(|id| id.parse().ok());
    id.and_then(Pid::from_raw).filter(|id| rustix::process::getppid() == Some(*id))
}

/// The command that starts the kernel.
struct KernelCommand {
    path: PathBuf,
    arguments: Vec<OsString>,
}

impl KernelCommand {
    fn start(&self) -> Result<(Child, KernelLink), CliError> {
        let (link, stdin) = KernelLink::pair()?;
        let child = Command::new(&self.path)
            .args(&self.arguments)
            // The id lets the kernel detect a variable inherited through another process.
            .env(SUPERVISED, std::process::id().to_string())
            .env(link::SUPERVISOR_LINK, link::STDIN)
            .stdin(stdin)
            .spawn()
            .map_err(|error| CliError::io(&self.path, &error))?;
        Ok((child, link))
    }
}

/// Returns this process's arguments without those for supervision.
fn arguments() -> Vec<OsString> {
    std::env::args_os().skip(1).filter(|argument| argument != "--supervised").collect()
}

/// The signals that shut down a kernel.
struct ShutdownSignals {
    int: unix::Signal,
    term: unix::Signal,
}

impl ShutdownSignals {
    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.int.recv() => Signal::INT,
            _ = self.term.recv() => Signal::TERM,
        }
    }
}

/// The end of a kernel process.
struct KernelEnd {
    status: ExitStatus,
    /// Whether it received a shutdown signal.
    shutdown_requested: bool,
    /// Whether it sent a heartbeat; an earlier version never does.
    heartbeat_seen: bool,
    /// The exit code that it reported last.
    reported: Option<u8>,
    /// The duration of its silence if it was killed for that.
    killed_after: Option<Duration>,
}

impl KernelEnd {
    /// Returns whether the kernel itself chose its exit code. Native code in it may also end the
    /// process, without a report.
    fn in_order(&self) -> bool {
        let code = code(self.status);
        code.is_some() && (self.reported == code || !self.heartbeat_seen)
    }
}

/// Runs the kernel to its end. It is killed after `silence` without a heartbeat, and if it exceeds
/// the time limit of a shutdown.
async fn run(
    program: &KernelCommand,
    signals: &mut ShutdownSignals,
    silence: Duration,
) -> Result<KernelEnd, CliError> {
    let (mut child, mut link) = program.start()?;
    let (mut silent_at, mut end_at) = (None, None);
    let mut end = KernelEnd {
        status: ExitStatus::default(),
        shutdown_requested: false,
        heartbeat_seen: false,
        reported: None,
        killed_after: None,
    };
    loop {
        let deadline = [silent_at, end_at].into_iter().flatten().min();
        let sign = tokio::select! {
            biased;
            status = child.wait() => {
                end.status = status?;
                while let Some(sign) = link.take() {
                    end.record_sign(sign);
                }
                return Ok(end);
            }
            signal = signals.next() => {
                end.shutdown_requested = true;
                // Further signals are passed on but do not extend the time limit.
                end_at.get_or_insert_with(|| tokio::time::Instant::now() + END_LIMIT);
                send(&child, signal);
                continue;
            }
            sign = link.next() => sign,
            () = past(deadline) => {
                // Only silence counts as a hang; a slow shutdown is killed without that reason.
                if silent_at.is_some() && silent_at == deadline {
                    end.killed_after = Some(silence);
                }
                // The kill is sent once; only the end of the process remains to be awaited.
                (silent_at, end_at) = (None, None);
                send(&child, Signal::KILL);
                continue;
            }
        };
        end.record_sign(sign);
        // A sign sent before the kill must not start another timeout.
        if end.killed_after.is_none() {
            silent_at = Some(tokio::time::Instant::now() + silence);
        }
    }
}

impl KernelEnd {
    /// Describes the end, after the subject "the kernel".
    fn describe(&self) -> String {
        let chosen = code(self.status).filter(|_| self.in_order());
        match (chosen, code(self.status), self.killed_after) {
            (Some(exit::RESTART), ..) => "requested a restart".to_owned(),
            (Some(code), ..) => format!("ended with exit code {code}"),
            (None, Some(code), _) => format!("ended out of order with exit code {code}"),
            (None, None, Some(silence)) => {
                format!("sent no heartbeat for {} s and was killed", silence.as_secs())
            }
            (None, None, None) => {
                format!("was killed by signal {}", self.status.signal().unwrap_or_default())
            }
        }
    }

    fn record_sign(&mut self, sign: KernelSign) {
        self.heartbeat_seen = true;
        if let KernelSign::Ended(code) = sign {
            self.reported = Some(code);
        }
    }
}

/// Adds the end of the kernel to its log: a kernel that crashed could not do so.
fn log_kernel_end(home: &Home, end: &KernelEnd) {
    let level = if code(end.status) == Some(exit::RESTART) { "INFO" } else { "ERROR" };
    let line = queue::log_line(level, "supervisor", &format!("the kernel {}", end.describe()));
    // No kernel runs now, so no other process writes. The line is also printed.
    if let Ok(mut log) = RotatedLog::open(&home.log_file(), LogLimits::default()) {
        let _ = log.write_all(line.as_bytes());
    }
}

/// Waits until a time, or forever without one.
async fn past(time: Option<tokio::time::Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

fn send(child: &Child, signal: Signal) {
    // A reaped child has no id, so a signal never reaches a process that reuses it.
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(id) = id {
        // The process may have ended just now.
        let _ = kill_process(id, signal);
    }
}

fn code(status: ExitStatus) -> Option<u8> {
    status.code().and_then(|code| u8::try_from(code).ok())
}

/// Returns the delay before a restart, or `None` if another start would fail the same way.
fn restart_delay(
    output: Output,
    backoff: &mut RestartBackoff,
    now: Duration,
    end: &KernelEnd,
) -> Result<Option<Duration>, CliError> {
    let chosen = code(end.status).filter(|_| end.in_order());
    let how = match chosen {
        // The kernel has reported the error: in its settings, its home, or a second kernel.
        Some(exit::USAGE | exit::NOT_FOUND | exit::CONFLICT) => return Ok(None),
        Some(exit::RESTART) => ExitCause::RestartRequested,
        _ => ExitCause::Crashed,
    };
    let what = end.describe();
    match backoff.record_exit(how, now) {
        // A requested restart has no backoff, so its line names no delay.
        RestartDecision::Restart(wait) if wait.is_zero() => {
            print_event(
                output,
                "supervisor.restarting",
                &what,
                &json!({ "reason": what, "wait_ms": 0 }),
            )?;
            Ok(Some(wait))
        }
        RestartDecision::Restart(wait) => {
            let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            let line = format!("{what}; it is restarted in {ms} ms");
            print_event(
                output,
                "supervisor.restarting",
                &line,
                &json!({ "reason": what, "wait_ms": ms }),
            )?;
            Ok(Some(wait))
        }
        RestartDecision::Stop(times) => {
            let message = format!(
                "the kernel {what}, the {} time within minutes; it is not restarted",
                ordinal(times)
            );
            Err(CliError::new(exit::CRASHED, message).with_hint(
                "read its last output, with --log info if need be\n\
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

/// Prints one line among those of the kernel's events.
fn print_event(output: Output, event: &str, line: &str, payload: &Value) -> Result<(), CliError> {
    match output.json {
        true => output.print_json(&json!({
            "event": event,
            "source": "supervisor",
            "payload": payload,
        })),
        false => output.print_line(format!("{DIM}supervisor{DIM:#} the kernel {line}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinals_have_suffixes() {
        let ordinals: Vec<_> = [1, 2, 3, 5, 11, 12, 21, 112].map(ordinal).into();
        assert_eq!(ordinals, ["1st", "2nd", "3rd", "5th", "11th", "12th", "21st", "112th"]);
    }

    #[test]
    fn default_settings_are_default_limits() {
        assert_eq!(restart_limits(SupervisorSettings::default()), RestartLimits::default());
    }
}
