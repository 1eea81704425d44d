//! A child process in the operating system: its group, its limits, its standard error and its exit.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use skillhost_policy::SandboxPolicy;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use crate::group::{LimitedMemory, ProcessGroup, limit_memory};
use crate::isolation::{EndCause, IsolationReport, RunEnd, describe_code};
use crate::launch::LaunchSpec;
use crate::orphans;
use crate::printable::to_printable;
use crate::sandbox_spec::{InputMode, LevelSelection, SandboxError, SandboxSpec};
use crate::{SandboxLauncher, SandboxedChild};

/// The maximum length of a logged line of standard error, in bytes; the rest is dropped.
const MAX_LOGGED_LINE: usize = 4096;

/// The number of the latest lines that explain an exit, and their maximum length in characters.
const MAX_RECENT_LINES: usize = 6;
const MAX_RECENT_LENGTH: usize = 300;

/// The timeout for the rest of standard error after the exit of a process.
const STDERR_TIMEOUT: Duration = Duration::from_millis(300);

/// A long-running child to start.
#[derive(Clone)]
pub struct ChildSpec {
    /// The name of the child in logs.
    pub id: String,
    /// The program.
    pub launch: LaunchSpec,
    /// Whether and how it is isolated.
    pub containment: ChildContainment,
}

/// Whether a child is isolated.
#[derive(Debug, Clone)]
pub enum ChildContainment {
    /// By a policy; without a level that it requires, nothing is started.
    Sandboxed(Box<SandboxPolicy>),
    /// Not at all, by a decision of the operator.
    Plain {
        /// The file for its process id.
        note: PathBuf,
        /// The limit of its data in bytes, on systems that support one.
        memory: u64,
    },
}

/// A process and all that it starts; killed on drop.
#[derive(Debug)]
pub struct ChildProcess {
    isolation: IsolationReport,
    running: RunningChild,
    recent_lines: Arc<Mutex<VecDeque<String>>>,
    reader: JoinHandle<()>,
}

#[derive(Debug)]
enum RunningChild {
    /// Boxed, because it is much larger than the other.
    Sandboxed(Box<SandboxedChild>),
    Plain {
        child: tokio::process::Child,
        group: ProcessGroup,
    },
}

impl ChildProcess {
    /// Spawns a process with only the environment of its specification.
    ///
    /// # Errors
    /// [`SandboxError`]; nothing of the program was run then.
    pub async fn spawn(spec: &ChildSpec) -> Result<(Self, ChildStdin, ChildStdout), SandboxError> {
        match &spec.containment {
            ChildContainment::Sandboxed(policy) => Self::spawn_sandboxed(spec, policy).await,
            ChildContainment::Plain { note, memory } => {
                Ok(Self::spawn_plain(spec, note, *memory).await?)
            }
        }
    }

    async fn spawn_sandboxed(
        spec: &ChildSpec,
        policy: &SandboxPolicy,
    ) -> Result<(Self, ChildStdin, ChildStdout), SandboxError> {
        let sandboxed = SandboxSpec {
            launch: spec.launch.clone(),
            policy: policy.clone(),
            stdin: InputMode::Pipe,
            channel: None,
            levels: LevelSelection::default(),
        };
        let mut child = SandboxLauncher::default().spawn(sandboxed).await?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (stdin, stdout, stderr) = require_streams(stdin, stdout, child.stderr.take())?;
        let isolation = child.isolation.clone();
        let running = RunningChild::Sandboxed(Box::new(child));
        Ok((Self::with_reader(spec, isolation, running, stderr), stdin, stdout))
    }

    async fn spawn_plain(
        spec: &ChildSpec,
        note: &Path,
        memory: u64,
    ) -> io::Result<(Self, ChildStdin, ChildStdout)> {
        let mut child = spec.launch.to_command().stdin(Stdio::piped()).spawn()?;
        let group = ProcessGroup::from_child(&child);
        if let (Some(pid), Some(number)) = (group.leader(), child.id()) {
            if let Err(error) = limit_memory(pid, LimitedMemory::Data, memory) {
                tracing::warn!(id = %spec.id, %error, "memory limit not set");
            }
            // The record lets the next kernel kill the process if this one crashes. A failure does
            // not prevent the start.
            let note = note.to_owned();
            let recording = spawn_blocking(move || orphans::record_pid(&note, number));
            if let Err(error) = recording.await.map_err(io::Error::other).flatten() {
                tracing::warn!(id = %spec.id, %error, "process id not recorded");
            }
        }
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (stdin, stdout, stderr) = require_streams(stdin, stdout, child.stderr.take())?;
        let running = RunningChild::Plain { child, group };
        let isolation = IsolationReport::uncontained();
        Ok((Self::with_reader(spec, isolation, running, stderr), stdin, stdout))
    }

    fn with_reader(
        spec: &ChildSpec,
        isolation: IsolationReport,
        running: RunningChild,
        stderr: ChildStderr,
    ) -> Self {
        let recent_lines = Arc::default();
        let lines = Arc::clone(&recent_lines);
        let reader = tokio::spawn(log_stderr(spec.id.clone(), stderr, lines));
        Self { isolation, running, recent_lines, reader }
    }

    /// Returns the isolation that was reached.
    #[must_use]
    pub fn isolation(&self) -> &IsolationReport {
        &self.isolation
    }

    /// Waits until the process has exited. Cancel-safe.
    pub async fn wait(&mut self) {
        // The error is that of a process that is gone.
        let _ = self.await_exit().await;
    }

    /// Waits for the exit and describes it as a predicate without a subject.
    async fn await_exit(&mut self) -> io::Result<String> {
        match &mut self.running {
            RunningChild::Sandboxed(child) => child.wait().await.map(|end| describe_end(&end)),
            RunningChild::Plain { child, .. } => child.wait().await.map(describe_status),
        }
    }

    /// Describes the exit of the process within a limit, with its latest lines of standard error.
    pub async fn describe_exit(&mut self, limit: Duration) -> String {
        let how = match timeout(limit, self.await_exit()).await {
            Ok(Ok(how)) => how,
            Ok(Err(error)) => format!("is lost: {error}"),
            Err(_) => "closed its standard output".to_owned(),
        };
        // Processes that it has started may hold the stream open, so the reader may never finish.
        let _ = timeout(STDERR_TIMEOUT, &mut self.reader).await;
        let recent = self.recent_lines.lock().unwrap_or_else(PoisonError::into_inner);
        match recent.is_empty() {
            true => how,
            false => {
                let lines: Vec<_> = recent.iter().map(String::as_str).collect();
                format!("{how}\nlast lines of standard error:\n{}", lines.join("\n"))
            }
        }
    }

    /// Waits for the exit after the input was closed, then sends SIGTERM, then SIGKILL.
    ///
    /// SIGKILL goes to all processes. Takes at most `limit`.
    pub async fn shutdown(&mut self, limit: Duration) {
        // Three waits, and a reserve for the reading of standard error.
        let part = limit / 4;
        if timeout(part, self.wait()).await.is_err() {
            match &self.running {
                RunningChild::Sandboxed(child) => {
                    // The error means that it has ended.
                    let _ = child.terminate();
                }
                RunningChild::Plain { group, .. } => group.signal(Signal::TERM),
            }
            if timeout(part, self.wait()).await.is_err() {
                tracing::warn!("process did not stop in time and is killed");
            }
        }
        self.kill(part).await;
    }

    /// Kills all processes and waits for the exit, at most `limit`.
    pub async fn kill(&mut self, limit: Duration) {
        match &self.running {
            RunningChild::Sandboxed(child) => {
                // The error means that it has ended.
                let _ = child.cancel(None);
            }
            RunningChild::Plain { group, .. } => group.signal(Signal::KILL),
        }
        let _ = timeout(limit, self.wait()).await;
        if let RunningChild::Plain { group, .. } = &mut self.running {
            group.release();
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // A sandboxed child ends with its socket.
        if let RunningChild::Plain { group, .. } = &self.running {
            group.signal(Signal::KILL);
        }
        self.reader.abort();
    }
}

fn require_streams(
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
) -> io::Result<(ChildStdin, ChildStdout, ChildStderr)> {
    let missing = || io::Error::other("the process has no standard streams");
    Ok((stdin.ok_or_else(missing)?, stdout.ok_or_else(missing)?, stderr.ok_or_else(missing)?))
}

/// Describes the exit status of a process as a predicate without a subject.
fn describe_status(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    describe_code(status.code(), status.signal())
}

/// Describes the end of an isolated process, with the place of the limit that it exceeded.
fn describe_end(end: &RunEnd) -> String {
    match end.ended_by {
        None | Some(EndCause::Cancelled) => end.describe(),
        Some(_) => format!("{} in `sandbox: {{limits: …}}`", end.describe()),
    }
}

/// Logs the standard error of a process and retains its latest lines.
async fn log_stderr(id: String, mut stderr: ChildStderr, recent: Arc<Mutex<VecDeque<String>>>) {
    let mut lines = LineSplitter::default();
    let mut chunk = vec![0; 8 * 1024];
    while let Ok(read @ 1..) = read_chunk(&mut stderr, &mut chunk).await {
        lines.push(&chunk[..read], &mut |line| push_log_line(&id, line, &recent));
    }
    // The last line may lack its line break.
    lines.finish(&mut |line| push_log_line(&id, line, &recent));
}

async fn read_chunk(from: &mut (impl AsyncRead + Unpin), chunk: &mut [u8]) -> io::Result<usize> {
    from.read(chunk).await
}

fn push_log_line(id: &str, line: &[u8], recent: &Mutex<VecDeque<String>>) {
    let line = to_printable(&String::from_utf8_lossy(line), MAX_LOGGED_LINE);
    if line.is_empty() {
        return;
    }
    tracing::info!(target: "extension", id, origin = "stderr", "{line}");
    let mut recent = recent.lock().unwrap_or_else(PoisonError::into_inner);
    if recent.len() == MAX_RECENT_LINES {
        recent.pop_front();
    }
    recent.push_back(to_printable(&line, MAX_RECENT_LENGTH));
}

/// A splitter of a stream into lines, each truncated at the maximum length.
#[derive(Default)]
struct LineSplitter {
    line: Vec<u8>,
}

impl LineSplitter {
    fn push(&mut self, bytes: &[u8], each: &mut impl FnMut(&[u8])) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            // The rest of a long line is dropped, so that it cannot fill the memory.
            let room = MAX_LOGGED_LINE.saturating_sub(self.line.len());
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if text.len() < part.len() {
                each(&self.line);
                self.line.clear();
            }
        }
    }

    fn finish(&mut self, each: &mut impl FnMut(&[u8])) {
        if !self.line.is_empty() {
            each(&std::mem::take(&mut self.line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_stderr_line_is_truncated() {
        let mut lines = Vec::new();
        let mut each = |line: &[u8]| lines.push(String::from_utf8_lossy(line).into_owned());
        let mut splitter = LineSplitter::default();
        splitter.push(b"on", &mut each);
        splitter.push(b"e\ntwo\n\nth", &mut each);
        splitter.push(&[b'x'; 2 * MAX_LOGGED_LINE], &mut each);
        splitter.push(b"\nlast", &mut each);
        splitter.finish(&mut each);
        let long = format!("th{}", "x".repeat(MAX_LOGGED_LINE - 2));
        assert_eq!(lines, ["one", "two", "", &long, "last"]);
    }
}
