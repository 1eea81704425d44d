//! Output: results go to stdout, everything else to stderr.

use std::fmt::Display;
use std::io::{self, BufRead as _, IsTerminal as _, Write};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::{Map, Value, json};
use skillhost_payload::ToolOutput;

use crate::error::CliError;
use crate::exit;
use crate::sanitize::{escape_in_json, sanitize};
use crate::screen_size::ScreenSize;

mod paging;
pub mod queue;
mod table;

pub use table::TableColumn;

/// Whether notes are left out.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Holds all further output back until [`CliContext::show_held_output`], if standard output is a
/// terminal that can page it.
///
/// [`CliContext::show_held_output`]: crate::CliContext::show_held_output
pub fn hold_output() {
    paging::hold_output();
}

/// Shows the held output, and prints what follows it.
pub(crate) fn show_held_output(ignore_interrupts: &dyn Fn() -> io::Result<()>) {
    let rest = paging::release_output(ignore_interrupts);
    rest.stderr.into_iter().for_each(to_stderr);
    if let Some(failure) = rest.failure {
        Output { json: false }.print_note(failure);
    }
}

/// Leaves out all further notes of this process, as `--quiet` requests.
pub fn suppress_notes() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Version of every `--json` object.
pub const SCHEMA_VERSION: u32 = 1;

/// The style of names and titles.
pub const BOLD: Style = Style::new().bold();
/// The style of secondary text.
pub const DIM: Style = Style::new().dimmed();
/// The style of errors.
pub const RED: Style = AnsiColor::Red.on_default().bold();
/// The style of success.
pub const GREEN: Style = AnsiColor::Green.on_default();
/// The style of warnings.
pub const YELLOW: Style = AnsiColor::Yellow.on_default();

/// The result of a command: an exit code, or an error that becomes one.
pub type CommandResult = Result<u8, CliError>;

/// The format of the output; cheap to copy.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// Whether results are printed as JSON.
    pub json: bool,
}

impl Output {
    /// Prints a line of a result. Untrusted text in it must have passed [`display_safe`].
    pub fn print_line(self, line: impl Display) -> Result<(), CliError> {
        match queue::stdout_queue() {
            Some(queue) => queue.push(format!("{line}\n").into_bytes()),
            None => {
                let line = format!("{line}\n");
                let line = match self.uses_color() {
                    true => line,
                    false => anstream::adapter::strip_str(&line).to_string(),
                };
                ignore_broken_pipe(StandardOutput.write_all(line.as_bytes()))?;
            }
        }
        Ok(())
    }

    /// Prints a line, wrapped between words to the width of the terminal; further lines are indented.
    /// Untrusted text in it must have passed [`display_safe`].
    pub fn print_wrapped(self, line: &str, indent: usize) -> Result<(), CliError> {
        match self.width() {
            None => self.print_line(line),
            Some(width) => self.print_line(wrap_line(line, width, indent)),
        }
    }

    /// Returns whether standard output uses colors.
    pub fn uses_color(self) -> bool {
        anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
    }

    /// Returns the width of the terminal on standard output, if any.
    pub fn width(self) -> Option<usize> {
        ScreenSize::from_stream(&io::stdout()).map(|screen| screen.columns)
    }

    /// Returns buffered standard output for many lines; the caller applies styles (see
    /// [`Output::uses_color`]).
    pub fn buffered(self) -> impl Write {
        io::BufWriter::with_capacity(64 * 1024, StandardOutput)
    }

    /// Prints a text unchanged, with a final newline; on a terminal, sanitized.
    pub fn print_text(self, text: &str) -> Result<(), CliError> {
        self.print_raw(text)?;
        if text.ends_with('\n') { Ok(()) } else { self.print_raw("\n") }
    }

    /// Prints a part of a text unchanged; on a terminal, sanitized.
    pub fn print_raw(self, text: &str) -> Result<(), CliError> {
        let text = if io::stdout().is_terminal() { sanitize(text) } else { text.into() };
        ignore_broken_pipe(StandardOutput.write_all(text.as_bytes()))
    }

    /// Prints the output of a program: unchanged into a file or pipe, as printable text on a terminal.
    pub fn print_bytes(self, bytes: &[u8], printable: &str) -> Result<(), CliError> {
        if io::stdout().is_terminal() {
            return self.print_raw(printable);
        }
        ignore_broken_pipe(StandardOutput.write_all(bytes))
    }

    /// Prints a chunk of a streamed text as [`Output::print_raw`] does, and flushes it.
    pub fn print_chunk(self, text: &str) -> Result<(), CliError> {
        self.print_raw(text)?;
        ignore_broken_pipe(io::stdout().lock().flush())
    }

    /// Prints complete lines with styles. Untrusted text in them must have passed [`display_safe`].
    pub fn print_styled(self, lines: &str) -> Result<(), CliError> {
        let mut stdout = anstream::stdout().lock();
        ignore_broken_pipe(stdout.write_all(lines.as_bytes()).and_then(|()| stdout.flush()))
    }

    /// Replaces the last line of the terminal on stderr, in one write; the cursor stays in it.
    pub fn redraw_line(self, line: impl Display) {
        // The stream would remove the control sequences together with the styles.
        let line = match anstream::AutoStream::choice(&io::stderr()) {
            anstream::ColorChoice::Never => {
                anstream::adapter::strip_str(&line.to_string()).to_string()
            }
            _ => line.to_string(),
        };
        // A closed stderr must not fail the command.
        let _ = io::stderr().lock().write_all(format!("\r\u{1b}[2K{line}").as_bytes());
    }

    /// Prints progress lines on stderr. Untrusted text in them must have passed [`display_safe`].
    pub fn print_progress(self, lines: impl Display) {
        if !self.json {
            to_stderr(format!("{lines}\n"));
        }
    }

    /// Returns whether a terminal is there to answer a question.
    #[must_use]
    pub fn can_ask(self) -> bool {
        !self.json && io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Asks a question with the default no, and returns the answer; `None` if no terminal is there to
    /// answer it.
    ///
    /// # Errors
    /// Standard input cannot be read.
    pub fn ask_yes_no(self, question: &str) -> Result<Option<bool>, CliError> {
        if !self.can_ask() {
            return Ok(None);
        }
        self.print_progress(format!("{BOLD}{question}{BOLD:#} [y]es, [N]o"));
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line)?;
        Ok(Some(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")))
    }

    /// Returns standard error for the results of another program, which are no results of this one.
    #[must_use]
    pub fn messages_of_child(self) -> Stdio {
        io::stderr().into()
    }

    /// Prints the single object of `--json`; `schema_version` is one of its fields.
    pub fn print_json<T: Serialize + ?Sized>(self, value: &T) -> Result<(), CliError> {
        let mut object = Map::new();
        object.insert("schema_version".to_owned(), SCHEMA_VERSION.into());
        match serde_json::to_value(value).map_err(io::Error::from)? {
            Value::Object(fields) => object.extend(fields),
            other => drop(object.insert("result".to_owned(), other)),
        }
        let mut object = Value::Object(object);
        // The parser may preserve the order of fields; printed objects have a fixed one.
        object.sort_all_objects();
        let text = json_text(&object)?;
        match queue::stdout_queue() {
            Some(queue) => queue.push(format!("{text}\n").into_bytes()),
            None => ignore_broken_pipe(writeln!(StandardOutput, "{text}"))?,
        }
        Ok(())
    }

    /// Prints the result of a tool, and returns the exit code: a failure of the tool is a finding.
    pub fn print_tool_output(self, tool: &str, output: &ToolOutput) -> CommandResult {
        if self.json {
            let structured: Value = match &output.structured {
                Some(raw) => serde_json::from_str(raw.get()).map_err(io::Error::from)?,
                None => Value::Null,
            };
            self.print_json(&json!({
                "tool": tool,
                "is_error": output.is_error,
                "text": output.text,
                "structured": structured,
            }))?;
        } else {
            self.print_text(&output.text)?;
        }
        Ok(if output.is_error { exit::FINDINGS } else { exit::OK })
    }

    /// Prints rows under a header in aligned columns that fit the terminal. A note names the columns
    /// that do not fit.
    pub fn print_table(
        self,
        columns: &[TableColumn<'_>],
        rows: &[Vec<String>],
    ) -> Result<(), CliError> {
        let safe = |cell: &String| display_safe(cell).replace(['\n', '\t'], " ");
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(safe).collect()).collect();
        let table = table::render_table(columns, &rows, self.width());
        if let Some(header) = table.header {
            self.print_line(format!("{BOLD}{header}{BOLD:#}"))?;
        }
        table.lines.iter().try_for_each(|line| self.print_line(line))?;
        if !table.omitted.is_empty() {
            let omitted = table.omitted.join(", ");
            self.print_note(format!("columns that do not fit here: {omitted}; --json has all"));
        }
        Ok(())
    }

    /// Prints a message that is not part of the result.
    pub fn print_note(self, text: impl Display) {
        if !self.json && !QUIET.load(Ordering::Relaxed) {
            let text = text.to_string();
            let mut line = format!("{YELLOW}note{YELLOW:#}: {}", sanitize(&text));
            if let Some(screen) = ScreenSize::from_stream(&io::stderr()) {
                line = wrap_line(&line, screen.columns, "note: ".len());
            }
            to_stderr(line + "\n");
        }
    }

    /// Prints a text on stderr unchanged; on a terminal, sanitized.
    pub fn eprint_raw(self, text: &str) {
        let mut stderr = io::stderr().lock();
        let text = if stderr.is_terminal() { sanitize(text) } else { text.into() };
        // A closed stderr must not fail the command.
        let _ = stderr.write_all(text.as_bytes());
    }

    /// Prints an error with its hints.
    pub fn print_error(self, error: &CliError) {
        if self.json {
            let mut object = json!({ "schema_version": SCHEMA_VERSION, "error": error.to_json() });
            object.sort_all_objects();
            return to_stderr(format!("{object}\n"));
        }
        let mut lines = format!("{RED}error{RED:#}: {}\n", sanitize(error.message()));
        for hint in error.hints() {
            lines.push_str(&format!("{GREEN}hint{GREEN:#}: {}\n", sanitize(hint)));
        }
        to_stderr(lines);
    }
}

/// Wraps a line between words; further lines are indented. A word that is wider than the terminal is
/// kept whole, and styles have no width.
pub fn wrap_line(line: &str, width: usize, indent: usize) -> String {
    // A deep indentation would leave only a few words on each line.
    let indent = if indent + 24 > width { indent.min(4).min(width / 4) } else { indent };
    table::wrap_words(line, width, indent).join("\n")
}

/// Standard output, or the output that is held back for a pager.
struct StandardOutput;

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if paging::hold_stdout(bytes) { Ok(bytes.len()) } else { io::stdout().lock().write(bytes) }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().lock().flush()
    }
}

/// Writes to stderr; a closed stderr does not fail the command.
fn to_stderr(text: String) {
    let Some(text) = paging::hold_stderr(text) else { return };
    match queue::stderr_queue() {
        Some(queue) => queue.push(text.into_bytes()),
        None => {
            let _ = anstream::stderr().write_all(text.as_bytes());
        }
    }
}

/// Serializes a value as JSON on one printable line: control characters are escaped.
pub fn json_text<T: Serialize + ?Sized>(value: &T) -> io::Result<String> {
    Ok(escape_in_json(serde_json::to_string(value)?))
}

/// Makes untrusted text printable.
pub fn display_safe(text: &str) -> String {
    sanitize(text).into_owned()
}

/// Converts a broken pipe (`| head`) to success.
pub fn ignore_broken_pipe(result: io::Result<()>) -> Result<(), CliError> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            std::process::exit(i32::from(exit::OK))
        }
        other => Ok(other?),
    }
}
