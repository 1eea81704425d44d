//! The standard output and standard error of programs, in the log within a limit.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use skillhost_sandbox::to_printable;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The maximum length of a logged line in bytes; the rest is dropped.
const MAX_LOGGED_LINE: usize = 4096;

/// The number of the latest lines that explain an exit, and their maximum length in characters.
const MAX_RECENT_LINES: usize = 6;
const MAX_RECENT_LENGTH: usize = 300;

/// The output of one process.
#[derive(Clone)]
pub(crate) struct ProgramLog {
    state: Arc<LogState>,
}

struct LogState {
    tool: String,
    /// The bytes that may still be logged.
    room: AtomicU64,
    recent: Mutex<VecDeque<String>>,
}

impl ProgramLog {
    /// Creates the log of a process that may write `limit` bytes.
    pub(crate) fn new(tool: &str, limit: u64) -> Self {
        let state = LogState {
            tool: tool.to_owned(),
            room: AtomicU64::new(limit),
            recent: Mutex::default(),
        };
        Self { state: Arc::new(state) }
    }

    /// Logs a stream to its end. Beyond the limit it is read and dropped, so that a program that
    /// writes much does not stop.
    pub(crate) async fn read(self, origin: &'static str, mut from: impl AsyncRead + Unpin) {
        let mut line = Vec::new();
        let mut chunk = vec![0; 8 * 1024];
        while let Ok(read @ 1..) = from.read(&mut chunk).await {
            for part in chunk[..read].split_inclusive(|byte| *byte == b'\n') {
                let text = part.strip_suffix(b"\n").unwrap_or(part);
                let room = MAX_LOGGED_LINE.saturating_sub(line.len());
                line.extend_from_slice(&text[..text.len().min(room)]);
                if text.len() < part.len() {
                    self.push(origin, &line);
                    line.clear();
                }
            }
        }
        // The last line may lack its line break.
        self.push(origin, &line);
    }

    /// Returns the latest lines of both streams.
    pub(crate) fn recent_lines(&self) -> Vec<String> {
        self.recent().iter().cloned().collect()
    }

    fn push(&self, origin: &'static str, line: &[u8]) {
        let line = to_printable(&String::from_utf8_lossy(line), MAX_LOGGED_LINE);
        if line.is_empty() {
            return;
        }
        let tool = &self.state.tool;
        let bytes = u64::try_from(line.len()).unwrap_or(u64::MAX);
        let taken = self.state.room.try_update(Ordering::Relaxed, Ordering::Relaxed, |room| {
            Some(room.saturating_sub(bytes))
        });
        match taken {
            Ok(room) if room > bytes => {
                tracing::info!(target: "program", tool, origin, "{line}");
            }
            Ok(1..) => {
                tracing::warn!(target: "program", tool, "more output is not logged: limit reached");
            }
            _ => {}
        }
        let mut recent = self.recent();
        if recent.len() == MAX_RECENT_LINES {
            recent.pop_front();
        }
        recent.push_back(to_printable(&line, MAX_RECENT_LENGTH));
    }

    fn recent(&self) -> std::sync::MutexGuard<'_, VecDeque<String>> {
        self.state.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn latest_lines_are_kept_beyond_limit() {
        let log = ProgramLog::new("t", 10);
        let output = (1..=20).map(|n| format!("line {n}\n")).collect::<String>() + "\u{1b}end";
        log.clone().read("stderr", output.as_bytes()).await;
        let lines = log.recent_lines();
        assert_eq!(lines.len(), MAX_RECENT_LINES);
        assert_eq!(lines.last().unwrap(), "\\u{1b}end");
        assert_eq!(log.state.room.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn long_line_is_cut() {
        let log = ProgramLog::new("t", 1 << 20);
        log.clone().read("stdout", "x".repeat(3 * MAX_LOGGED_LINE).as_bytes()).await;
        assert_eq!(log.recent_lines()[0].chars().count(), MAX_RECENT_LENGTH + 1);
        assert_eq!(log.state.room.load(Ordering::Relaxed), (1 << 20) - MAX_LOGGED_LINE as u64);
    }
}
