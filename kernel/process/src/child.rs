//! A child process as the operating system sees it: its group, its limits, its last words, its end.

use std::collections::VecDeque;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use skillhost_kernel::ProcessSpec;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::printable;

/// The longest line of standard error that is logged, in bytes; what follows is left out.
const LOGGED: usize = 4096;

/// Lines that are kept to explain an end, and how much of each, in characters.
const KEPT: usize = 6;
const KEPT_LENGTH: usize = 300;

/// How long the last words of a process that has ended may take to arrive.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// A process and everything it has started. Killed when dropped.
pub(crate) struct ChildProcess {
    child: tokio::process::Child,
    /// The group has the number of its first process.
    group: Option<Pid>,
    said: Arc<Mutex<VecDeque<String>>>,
    reader: JoinHandle<()>,
}

impl ChildProcess {
    /// Starts a process in a group of its own, with nothing but the environment that it is given.
    pub(crate) fn spawn(start: &ProcessSpec) -> io::Result<(Self, ChildStdin, ChildStdout)> {
        let mut child = Command::new(&start.program)
            .args(&start.arguments)
            .current_dir(&start.folder)
            .env_clear()
            .envs(&start.environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        if let (Some(pid), Some(number)) = (group, child.id()) {
            limit_memory(pid, start);
            if let Err(error) = start.record_pid(number) {
                tracing::warn!(id = %start.id, %error, "its process is not noted");
            }
        }
        let missing = || io::Error::other("the process has no standard streams");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let stderr = child.stderr.take().ok_or_else(missing)?;
        let said = Arc::default();
        let reader = tokio::spawn(listen(start.id.to_string(), stderr, Arc::clone(&said)));
        Ok((Self { child, group, said, reader }, stdin, stdout))
    }

    /// Waits until the process has ended. May be given up and called again.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Says how the process ended, if it does so soon, and what it said last.
    pub(crate) async fn describe_exit(&mut self, soon: Duration) -> String {
        let how = match timeout(soon, self.wait()).await {
            Ok(Ok(status)) => describe(status),
            Ok(Err(error)) => format!("is lost: {error}"),
            Err(_) => "closed its standard output".to_owned(),
        };
        // What it has started may hold the stream open.
        let _ = timeout(LAST_WORDS, &mut self.reader).await;
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        match said.is_empty() {
            true => how,
            false => {
                let lines: Vec<_> = said.iter().map(String::as_str).collect();
                format!("{how}\nlast on its standard error:\n{}", lines.join("\n"))
            }
        }
    }

    /// Waits for an end that was asked for by closing the input; what takes longer is told, then
    /// killed. Whatever the process has started ends with it. Takes at most `limit`.
    pub(crate) async fn shutdown(&mut self, limit: Duration) {
        let part = limit / 4;
        if timeout(part, self.wait()).await.is_err() {
            self.signal(Signal::TERM);
            if timeout(part, self.wait()).await.is_err() {
                tracing::warn!("a process did not end in time and is killed");
            }
        }
        self.kill(part).await;
    }

    /// Kills the process and everything in its group, and waits until it is gone, at most `limit`.
    pub(crate) async fn kill(&mut self, limit: Duration) {
        self.signal(Signal::KILL);
        let _ = timeout(limit, self.wait()).await;
        // From here on the number may be somebody else's.
        self.group = None;
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // It may have ended by itself meanwhile.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        self.reader.abort();
    }
}

/// Limits what the process, and each that it starts from now on, may have of writable memory.
#[cfg(target_os = "linux")]
fn limit_memory(pid: Pid, start: &ProcessSpec) {
    use rustix::process::{Resource, Rlimit, prlimit};
    let limit = Rlimit { current: Some(start.memory), maximum: Some(start.memory) };
    // Data, not the address space: some runtimes reserve far more of that than they ever use.
    if let Err(error) = prlimit(Some(pid), Resource::Data, limit) {
        tracing::warn!(id = %start.id, %error, "its memory is not limited");
    }
}

#[cfg(not(target_os = "linux"))]
fn limit_memory(_: Pid, _: &ProcessSpec) {}

/// How a process ended, as the rest of a sentence.
fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// Writes what a process says on standard error to the log, and keeps the last of it.
async fn listen(id: String, mut stderr: ChildStderr, said: Arc<Mutex<VecDeque<String>>>) {
    let mut lines = LineSplitter::default();
    let mut chunk = vec![0; 8 * 1024];
    while let Ok(read @ 1..) = read(&mut stderr, &mut chunk).await {
        lines.take(&chunk[..read], &mut |line| push_log_line(&id, line, &said));
    }
    lines.finish(&mut |line| push_log_line(&id, line, &said));
}

async fn read(from: &mut (impl AsyncRead + Unpin), chunk: &mut [u8]) -> io::Result<usize> {
    from.read(chunk).await
}

fn push_log_line(id: &str, line: &[u8], said: &Mutex<VecDeque<String>>) {
    let line = printable(&String::from_utf8_lossy(line), LOGGED);
    if line.is_empty() {
        return;
    }
    tracing::info!(target: "extension", id, origin = "stderr", "{line}");
    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
    if said.len() == KEPT {
        said.pop_front();
    }
    said.push_back(printable(&line, KEPT_LENGTH));
}

/// Cuts a stream into lines, and each line where it gets too long.
#[derive(Default)]
struct LineSplitter {
    line: Vec<u8>,
}

impl LineSplitter {
    fn take(&mut self, bytes: &[u8], each: &mut impl FnMut(&[u8])) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            let room = LOGGED.saturating_sub(self.line.len());
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
    fn standard_error_is_cut_into_lines_of_limited_length() {
        let mut lines = Vec::new();
        let mut each = |line: &[u8]| lines.push(String::from_utf8_lossy(line).into_owned());
        let mut cut = LineSplitter::default();
        cut.take(b"on", &mut each);
        cut.take(b"e\ntwo\n\nth", &mut each);
        cut.take(&[b'x'; 2 * LOGGED], &mut each);
        cut.take(b"\nlast", &mut each);
        cut.finish(&mut each);
        let long = format!("th{}", "x".repeat(LOGGED - 2));
        assert_eq!(lines, ["one", "two", "", &long, "last"]);
    }
}
