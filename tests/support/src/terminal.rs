//! A command on a pseudo-terminal, with its output and typed input.

use std::fs::{File, OpenOptions};
use std::io::{PipeWriter, Read as _, Write as _, pipe};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::home::redact;
use crate::process::{Output, to_exit_code};
use crate::waiting::{STUCK_AFTER, poll_until};

/// The time that the last output of a command may take to reach the test.
const LATE: Duration = Duration::from_secs(2);

/// A command that has a terminal for its input and output; killed when dropped before its end.
pub struct Terminal {
    child: Child,
    /// `None` after the terminal is closed.
    keyboard: Option<File>,
    reader: Option<ScreenReader>,
    /// The command's side, for reading the terminal modes at the end.
    line: Option<File>,
    before: Termios,
    shown: Receiver<Vec<u8>>,
    bytes: Vec<u8>,
    /// The length of the text that was already matched.
    seen: usize,
    redactions: Vec<(String, &'static str)>,
}

/// The thread that reads the output; it ends when the pipe is closed.
struct ScreenReader {
    thread: JoinHandle<()>,
    keep_open: PipeWriter,
}

/// The result of a command on a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The exit code; the displayed text as standard output, without control sequences.
    pub output: Output,
    /// The raw bytes of the output.
    pub bytes: Vec<u8>,
    /// `true` if line mode and echo are restored.
    pub modes_restored: bool,
}

impl Terminal {
    pub(crate) fn start(
        command: &mut Command,
        (columns, rows): (u16, u16),
        redactions: Vec<(String, &'static str)>,
    ) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("open a terminal");
        grantpt(&terminal).expect("the terminal is ours");
        unlockpt(&terminal).expect("the terminal is ours");
        let name = ptsname(&terminal, Vec::new()).expect("a terminal has a name");
        let name = name.to_str().expect("its name is ASCII").to_owned();
        let flags = i32::try_from(OFlags::NOCTTY.bits()).expect("a flag of open");
        let line = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&name);
        let line = line.expect("open the command's side of a terminal");
        let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&line, size).expect("a terminal has a size");
        let before = tcgetattr(&line).expect("a terminal has modes");
        let side = || line.try_clone().expect("a file can be shared");
        // Long output would wait for a key; a test of paging names its own pager.
        if !command.get_envs().any(|(name, _)| name == "PAGER") {
            command.env("PAGER", "cat");
        }
        let child = command
            .env("TERM", "xterm-256color")
            .process_group(0)
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()));
        // The command object keeps its side open until it is dropped.
        command.stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::null());
        command.stderr(std::process::Stdio::null());
        let keyboard = File::from(terminal);
        let mut screen = keyboard.try_clone().expect("a file can be shared");
        let (sender, shown) = channel();
        let (closed, keep_open) = pipe().expect("open a pipe");
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                let mut waited =
                    [PollFd::new(&screen, PollFlags::IN), PollFd::new(&closed, PollFlags::IN)];
                if poll(&mut waited, None).is_err() || !waited[1].revents().is_empty() {
                    break;
                }
                // The read fails once the other side is closed by all processes.
                match screen.read(&mut buffer) {
                    Ok(read @ 1..) if sender.send(buffer[..read].to_vec()).is_ok() => {}
                    _ => break,
                }
            }
        });
        let reader = Some(ScreenReader { thread, keep_open });
        Self {
            child,
            keyboard: Some(keyboard),
            reader,
            line: Some(line),
            before,
            shown,
            bytes: Vec::new(),
            seen: 0,
            redactions,
        }
    }

    /// Waits until a text is displayed after the previously matched text.
    ///
    /// # Panics
    /// If the command ends first or the test is stuck; the message has the complete output.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        self.read_until(text);
    }

    /// Waits as [`Terminal::wait_for`] and returns what was displayed before the text.
    ///
    /// # Panics
    /// If the command ends first or the test is stuck; the message has the complete output.
    #[track_caller]
    pub fn read_until(&mut self, text: &str) -> String {
        let start = Instant::now();
        loop {
            let shown = plain(&self.bytes);
            if let Some(at) = shown[self.seen..].find(text) {
                let before = shown[self.seen..self.seen + at].to_owned();
                self.seen += at + text.len();
                return before;
            }
            let left = STUCK_AFTER.saturating_sub(start.elapsed());
            match self.shown.recv_timeout(left.min(Duration::from_millis(50))) {
                Ok(bytes) => self.bytes.extend(bytes),
                Err(_) => {
                    let ended = self.child.try_wait().expect("the process is ours").is_some();
                    // The last output may have arrived just now.
                    let late: Vec<u8> = match ended {
                        true => self.shown.recv_timeout(LATE).unwrap_or_default(),
                        false => Vec::new(),
                    };
                    let over = (ended && late.is_empty()) || left.is_zero();
                    let since = &shown[self.seen..];
                    assert!(!over, "{text:?} is not shown (ended: {ended}):\n{since}");
                    self.bytes.extend(late);
                }
            }
        }
    }

    /// Types.
    pub fn send(&mut self, keys: &str) {
        let keyboard = self.keyboard.as_mut().expect("the terminal is open");
        keyboard.write_all(keys.as_bytes()).expect("a terminal takes keys");
    }

    /// Closes the terminal, as a terminal emulator whose window is closed: reads and writes of the
    /// command fail, and it receives `SIGHUP`. Returns its exit code.
    ///
    /// # Panics
    /// When the test is stuck.
    #[track_caller]
    pub fn hang_up(mut self) -> i32 {
        let reader = self.reader.take().expect("only this function takes it");
        drop(reader.keep_open);
        reader.thread.join().expect("the reader does not panic");
        self.line = None;
        self.keyboard = None;
        self.signal(Signal::HUP);
        to_exit_code(poll_until("the end of the command", || {
            self.child.try_wait().expect("the process is ours").ok_or("it runs")
        }))
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the process is ours");
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// When the test is stuck, also because another process keeps the terminal open.
    #[track_caller]
    #[must_use = "assert on what is left"]
    pub fn finish(mut self) -> Left {
        let status = poll_until("the end of the command", || {
            self.bytes.extend(self.shown.try_iter().flatten());
            let status = self.child.try_wait().expect("the process is ours");
            status.ok_or_else(|| plain(&self.bytes))
        });
        let line = self.line.take().expect("only finish takes it");
        let after = tcgetattr(&line).expect("a terminal has modes");
        let modes = |termios: &Termios| {
            (termios.input_modes, termios.output_modes, termios.control_modes, termios.local_modes)
        };
        let modes_restored = modes(&after) == modes(&self.before);
        // Once all processes have closed the command's side, the rest of its output ends.
        drop(line);
        let start = Instant::now();
        loop {
            match self.shown.recv_timeout(STUCK_AFTER.saturating_sub(start.elapsed())) {
                Ok(bytes) => self.bytes.extend(bytes),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
                    let shown = plain(&self.bytes);
                    panic!("a process keeps the terminal open; it showed:\n{shown}");
                }
            }
        }
        let output = Output {
            status: to_exit_code(status),
            stdout: redact(&plain(&self.bytes), &self.redactions),
            stderr: String::new(),
        };
        Left { output, bytes: std::mem::take(&mut self.bytes), modes_restored }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // After `finish` the process has ended already. Otherwise a test has failed, and no process
        // that a shell started may stay behind.
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Returns the text without control sequences; a cursor movement or an erased line starts a new line.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => {
                if characters.next() != Some('[') {
                    continue;
                }
                let mut sequence = String::new();
                for character in characters.by_ref() {
                    sequence.push(character);
                    if ('@'..='~').contains(&character) {
                        break;
                    }
                }
                // A line that is drawn again is a new line here.
                if sequence.ends_with('H') || (sequence == "2K" && !plain.ends_with('\n')) {
                    plain.push('\n');
                }
            }
            '\r' => {}
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use crate::TestHome;

    #[test]
    fn terminal_program_reads_typed_input() {
        let home = TestHome::new();
        let script = "test -t 0 && test -t 1 && stty size; read -r word; \
                      printf '\\033[31mgot\\033[2;1H%s\\033[0m\\n' \"$word\"; exit 3";
        let mut command = home.command_of("sh".as_ref());
        let mut shell = home.on_terminal(command.args(["-c", script]), (100, 30));
        shell.wait_for("30 100");
        shell.send("word\r");
        let left = shell.finish();
        assert_eq!(left.output.status, 3);
        assert_eq!(left.output.stdout, "30 100\nword\ngot\nword\n");
        assert!(left.modes_restored);
    }

    #[test]
    fn closed_terminal_hangs_up() {
        let home = TestHome::new();
        let mut command = home.command_of("sh".as_ref());
        let script = "trap 'exit 7' HUP; echo ready; while :; do sleep 0.01; done";
        let mut shell = home.on_terminal(command.args(["-c", script]), (80, 24));
        shell.wait_for("ready");
        assert_eq!(shell.hang_up(), 7);
    }

    #[test]
    fn raw_terminal_is_detected() {
        let home = TestHome::new();
        let mut command = home.command_of("stty".as_ref());
        assert!(!home.on_terminal(command.arg("raw"), (80, 24)).finish().modes_restored);
    }
}
