//! A child process in the operating system: its group, its limits, its standard error and its exit.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use crate::group::{LimitedMemory, ProcessGroup, limit_memory};
use crate::launch::LaunchSpec;
use crate::orphans;
use crate::printable::to_printable;

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
    /// The file for its process id.
    pub note: PathBuf,
    /// The limit of its data in bytes, on systems that support one.
    pub memory: u64,
}

/// A process and its process group; killed on drop.
#[derive(Debug)]
pub struct ChildProcess {
    child: tokio::process::Child,
    group: ProcessGroup,
    recent_lines: Arc<Mutex<VecDeque<String>>>,
    reader: JoinHandle<()>,
}

impl ChildProcess {
    /// Spawns a process in its own process group, with only the environment of its specification.
    ///
    /// # Errors
    /// The system's error.
    pub async fn spawn(spec: &ChildSpec) -> io::Result<(Self, ChildStdin, ChildStdout)> {
        let mut child = spec.launch.to_command().stdin(Stdio::piped()).spawn()?;
        let group = ProcessGroup::from_child(&child);
        if let (Some(pid), Some(number)) = (group.leader(), child.id()) {
            if let Err(error) = limit_memory(pid, LimitedMemory::Data, spec.memory) {
                tracing::warn!(id = %spec.id, %error, "memory limit not set");
            }
            // The record lets the next kernel kill the process if this one crashes. A failure does
            // not prevent the start.
            let note = spec.note.clone();
            let recording = spawn_blocking(move || orphans::record_pid(&note, number));
            if let Err(error) = recording.await.map_err(io::Error::other).flatten() {
                tracing::warn!(id = %spec.id, %error, "process id not recorded");
            }
        }
        let missing = || io::Error::other("the process has no standard streams");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let stderr = child.stderr.take().ok_or_else(missing)?;
        let recent_lines = Arc::default();
        let lines = Arc::clone(&recent_lines);
        let reader = tokio::spawn(log_stderr(spec.id.clone(), stderr, lines));
        Ok((Self { child, group, recent_lines, reader }, stdin, stdout))
    }

    /// Waits until the process has exited. Cancel-safe.
    ///
    /// # Errors
    /// The system's error.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Describes the exit of the process within a limit, with its latest lines of standard error.
    pub async fn describe_exit(&mut self, limit: Duration) -> String {
        let how = match timeout(limit, self.wait()).await {
            Ok(Ok(status)) => describe_status(status),
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
    /// SIGKILL goes to the complete process group. Takes at most `limit`.
    pub async fn shutdown(&mut self, limit: Duration) {
        // Three waits, and a reserve for the reading of standard error.
        let part = limit / 4;
        if timeout(part, self.wait()).await.is_err() {
            self.group.signal(Signal::TERM);
            if timeout(part, self.wait()).await.is_err() {
                tracing::warn!("process did not stop in time and is killed");
            }
        }
        self.kill(part).await;
    }

    /// Kills the process group and waits for the exit of the process, at most `limit`.
    pub async fn kill(&mut self, limit: Duration) {
        self.group.signal(Signal::KILL);
        let _ = timeout(limit, self.wait()).await;
        self.group.release();
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.group.signal(Signal::KILL);
        self.reader.abort();
    }
}

/// Describes the exit status of a process as a predicate without a subject.
fn describe_status(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
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
