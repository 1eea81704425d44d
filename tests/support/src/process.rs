//! A started command: its output line by line, its end.

use std::fmt;
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use crate::home::redact;
use crate::waiting::STUCK_AFTER;

/// The output and the exit of a command, with the paths of the home redacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The exit code; minus the signal's number where a signal ended the command.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// Requires the exit code 0.
    #[track_caller]
    pub fn success(self) -> Self {
        self.exits(0)
    }

    /// Requires an exit code.
    #[track_caller]
    pub fn exits(self, status: i32) -> Self {
        assert_eq!(self.status, status, "the command ended otherwise:\n{self}");
        self
    }

    /// Reads standard output as one JSON value.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("the output is not JSON ({error}):\n{self}"))
    }
}

/// Returns the code of [`Output::status`].
#[must_use]
pub fn to_exit_code(status: ExitStatus) -> i32 {
    let signal = || status.signal().map(|signal| -signal);
    status.code().or_else(signal).expect("a code or a signal ends a process")
}

/// Formats the complete output for a snapshot; streams without text and the isolation that the
/// machine offers are left out.
impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "exit {}", self.status)?;
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            let text = without_isolation(text);
            if !text.is_empty() {
                writeln!(f, "--- {name}\n{}", text.trim_end_matches('\n'))?;
            }
        }
        Ok(())
    }
}

/// Removes the line of `ext doctor` about this machine, and the indented ones after it.
fn without_isolation(text: &str) -> String {
    let mut is_inside = false;
    let kept = text.split_inclusive('\n').filter(|line| {
        is_inside = line.starts_with("isolation ") || (is_inside && line.starts_with("  "));
        !is_inside
    });
    kept.collect()
}

/// A running command; killed when dropped before its end.
pub struct Background {
    child: Child,
    lines: Receiver<String>,
    stdout: std::cell::RefCell<String>,
    stderr: Option<JoinHandle<String>>,
    redactions: Vec<(String, &'static str)>,
}

impl Background {
    pub(crate) fn start(command: &mut Command, redactions: Vec<(String, &'static str)>) -> Self {
        let program = command.get_program().to_owned();
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let (sender, lines) = channel();
        let stdout = child.stdout.take().expect("standard output is piped");
        std::thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            let mut line = Vec::new();
            while stdout.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                // The test may have ended.
                let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
                line.clear();
            }
        });
        let mut stderr = child.stderr.take().expect("standard error is piped");
        let stderr = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stderr.read_to_end(&mut bytes).expect("a pipe can be read");
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let stdout = std::cell::RefCell::default();
        Self { child, lines, stdout, stderr: Some(stderr), redactions }
    }

    /// Returns the id of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Reads lines of standard output up to one that contains `part`, and returns that one without
    /// its line break, redacted.
    ///
    /// # Panics
    /// When the output ends first or the test is stuck; the message has everything printed.
    #[track_caller]
    pub fn line_with(&self, part: &str) -> String {
        let start = Instant::now();
        loop {
            match self.next_line(start) {
                Ok(line) if line.contains(part) => {
                    return redact(line.trim_end(), &self.redactions);
                }
                Ok(_) => {}
                Err(why) => panic!("no line with {part:?} ({why}) in:\n{}", self.stdout.borrow()),
            }
        }
    }

    /// Sends SIGINT, as Ctrl-C does, and waits for the end.
    #[track_caller]
    #[must_use = "assert on the exit code, at least with success()"]
    pub fn interrupt(self) -> Output {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::INT).expect("the process is ours and not yet waited for");
        self.finish()
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// When the test is stuck; the message has everything printed.
    #[track_caller]
    #[must_use = "assert on the exit code, at least with success()"]
    pub fn finish(mut self) -> Output {
        // Both streams end with the process, or with a child that has inherited them.
        let start = Instant::now();
        let why = loop {
            match self.next_line(start) {
                Ok(_) => {}
                Err(why) => break why,
            }
        };
        if why == RecvTimeoutError::Timeout {
            panic!("the command does not end; it printed:\n{}", self.stdout.borrow());
        }
        let status = self.child.wait().expect("the process is ours");
        let stderr = self.stderr.take().expect("only finish takes it");
        let stderr = stderr.join().expect("reading a pipe does not panic");
        Output {
            status: to_exit_code(status),
            stdout: redact(&self.stdout.borrow(), &self.redactions),
            stderr: redact(&stderr, &self.redactions),
        }
    }

    /// Reads a line, as a part of a wait that began at `start`.
    fn next_line(&self, start: Instant) -> Result<String, RecvTimeoutError> {
        let left = STUCK_AFTER.saturating_sub(start.elapsed());
        let line = self.lines.recv_timeout(left)?;
        self.stdout.borrow_mut().push_str(&line);
        Ok(line)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // After `finish` the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
