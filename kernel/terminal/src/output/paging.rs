//! Long output, one screen at a time.
//!
//! The output of a paged command is held back until its end. If it fits the terminal it is printed;
//! otherwise `$PAGER` shows it, or the built-in pager if the variable is not set. An empty `$PAGER`
//! and `cat` turn paging off.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use minus::hooks::Hook;
use minus::{MinusError, Pager};
use textwrap::core::display_width;

use crate::screen_size::ScreenSize;

/// The signals that end a pager on behalf of the user: SIGHUP, SIGINT, SIGPIPE and SIGTERM.
const USER_SIGNALS: [i32; 4] = [1, 2, 13, 15];

/// The held output; `None` while output is printed at once.
static HELD: Mutex<Option<HeldOutput>> = Mutex::new(None);

/// The output of a paged command.
#[derive(Default)]
struct HeldOutput {
    /// The bytes of standard output, with styles if it has colors.
    stdout: Vec<u8>,
    /// The texts of standard error, which are printed after the output.
    stderr: Vec<String>,
}

/// Holds all further output back until [`release_output`], if standard output is a terminal that
/// can page it.
pub(super) fn hold_output() {
    let can_page = io::stdout().is_terminal() && PagerChoice::from_environment().is_some();
    let terminal = std::env::var_os("TERM").unwrap_or_default();
    if can_page && !terminal.is_empty() && terminal != "dumb" {
        *held() = Some(HeldOutput::default());
    }
}

/// The part of a paged command's output that follows what was shown.
#[derive(Debug, Default)]
pub(super) struct OutputRest {
    /// The texts of standard error.
    pub(super) stderr: Vec<String>,
    /// The reason for which the output was printed without a pager.
    pub(super) failure: Option<String>,
}

/// Shows the held output, one screen at a time if it is longer than one, and ends the holding. If the
/// pager fails, the output is printed directly. `ignore_interrupts` is called before a pager starts.
pub(super) fn release_output(ignore_interrupts: &dyn Fn() -> io::Result<()>) -> OutputRest {
    let Some(HeldOutput { stdout, stderr }) = held().take() else { return OutputRest::default() };
    let pager = PagerChoice::from_environment().filter(|_| !fits_terminal(&stdout));
    let shown = pager.map(|pager| pager.show(&stdout, ignore_interrupts));
    if !matches!(shown, Some(Ok(()))) {
        // Nothing is left to do for a command whose terminal has gone.
        let _ = io::stdout().lock().write_all(&stdout);
    }
    let failure = shown.and_then(Result::err).map(|error| error.to_string());
    OutputRest { stderr, failure }
}

/// Holds bytes of standard output back; returns `false` if they are to be printed at once.
pub(super) fn hold_stdout(bytes: &[u8]) -> bool {
    match &mut *held() {
        Some(held) => {
            held.stdout.extend_from_slice(bytes);
            true
        }
        None => false,
    }
}

/// Holds a text of standard error back; returns it if it is to be printed at once.
pub(super) fn hold_stderr(text: String) -> Option<String> {
    match &mut *held() {
        Some(held) => {
            held.stderr.push(text);
            None
        }
        None => Some(text),
    }
}

fn held() -> MutexGuard<'static, Option<HeldOutput>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program that shows long output.
enum PagerChoice {
    /// The command line in `$PAGER`.
    Command(String),
    /// The pager of this program.
    Builtin,
}

impl PagerChoice {
    /// Returns the pager of the user, or `None` if paging is turned off.
    fn from_environment() -> Option<Self> {
        match std::env::var("PAGER") {
            Ok(command) if matches!(command.trim(), "" | "cat") => None,
            Ok(command) => Some(Self::Command(command)),
            Err(_) => Some(Self::Builtin),
        }
    }

    /// Shows the output; the error is the reason why this failed.
    fn show(
        &self,
        output: &[u8],
        ignore_interrupts: &dyn Fn() -> io::Result<()>,
    ) -> Result<(), PagerError> {
        let failed =
            |error: io::Error| PagerError { pager: self.name(), reason: error.to_string() };
        match self {
            Self::Command(command) => match run_pager(command, output, ignore_interrupts)
                .map_err(failed)?
            {
                status if status.success() => Ok(()),
                status if status.signal().is_some_and(|it| USER_SIGNALS.contains(&it)) => Ok(()),
                status => Err(PagerError { pager: self.name(), reason: status.to_string() }),
            },
            Self::Builtin => show_builtin(&String::from_utf8_lossy(output))
                .map_err(|error| PagerError { pager: self.name(), reason: error.to_string() }),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Command(command) => format!("$PAGER ({command})"),
            Self::Builtin => "the built-in pager".to_owned(),
        }
    }
}

/// The reason for which a pager did not show the output.
struct PagerError {
    pager: String,
    reason: String,
}

impl std::fmt::Display for PagerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} failed: {}; the output was printed without it", self.pager, self.reason)
    }
}

/// Runs a pager until the user leaves it.
fn run_pager(
    command: &str,
    output: &[u8],
    ignore_interrupts: &dyn Fn() -> io::Result<()>,
) -> io::Result<ExitStatus> {
    // Ctrl-C is a key of the pager: this process must outlive it, or the shell and the pager would
    // both read the terminal.
    ignore_interrupts()?;
    // By convention the variable holds a command line, such as `less -S`.
    let mut pager = Command::new("sh");
    pager.args(["-c", command]).stdin(Stdio::piped());
    // The options of git: leave short output, show colors, keep the screen.
    for (variable, value) in [("LESS", "FRX"), ("LV", "-c")] {
        if std::env::var_os(variable).is_none() {
            pager.env(variable, value);
        }
    }
    let mut pager = pager.spawn()?;
    if let Some(mut input) = pager.stdin.take() {
        // A pager that is left early stops reading.
        let _ = input.write_all(output);
    }
    pager.wait()
}

fn show_builtin(text: &str) -> Result<(), MinusError> {
    let pager = Pager::new();
    pager.set_text(text)?;
    pager.set_prompt("q quits, / searches")?;
    // The predefined hook would end this process, without its exit code.
    pager.remove_hook(Hook::PostPagerExit, 1)?;
    minus::page_all(pager)
}

/// Returns `true` if the output and a line for the prompt fit the terminal.
fn fits_terminal(output: &[u8]) -> bool {
    let screen = ScreenSize::from_stream(&io::stdout()).unwrap_or(ScreenSize::FALLBACK);
    count_rows(&String::from_utf8_lossy(output), screen.columns) < screen.lines
}

/// Counts the rows that a text occupies on a terminal.
fn count_rows(text: &str, columns: usize) -> usize {
    let lines = text.lines().map(|line| {
        // A tab ends at the next multiple of eight; counting it as eight overestimates.
        let line = match line.contains('\t') {
            true => Cow::Owned(line.replace('\t', "        ")),
            false => Cow::Borrowed(line),
        };
        display_width(&line).div_ceil(columns.max(1)).max(1)
    });
    lines.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_lines_count_as_rows() {
        assert_eq!(count_rows("", 80), 0);
        assert_eq!(count_rows("a\n\nb\n", 80), 3);
        assert_eq!(count_rows(&"x".repeat(161), 80), 3);
        assert_eq!(count_rows("\u{1b}[1mbold\u{1b}[0m", 4), 1);
        assert_eq!(count_rows("\ta", 8), 2);
    }

    #[test]
    fn failed_pager_gives_reason() {
        let reason = |command: &str| {
            let shown = PagerChoice::Command(command.to_owned()).show(b"text\n", &|| Ok(()));
            shown.err().map(|error| error.to_string())
        };
        assert_eq!(reason("cat >/dev/null"), None);
        assert_eq!(reason("kill -TERM $$"), None);
        assert_eq!(
            reason("exit 3").unwrap(),
            "$PAGER (exit 3) failed: exit status: 3; the output was printed without it"
        );
        // More than a pipe holds, unread.
        let long = vec![b'x'; 1 << 20];
        assert!(PagerChoice::Command("true".to_owned()).show(&long, &|| Ok(())).is_ok());
    }
}
