//! `skillhost logs`: the log of the kernel.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use skillhost_files::{LogLimits, rotated_files};
use skillhost_payload::OperatorCommand;
use skillhost_terminal::{
    BOLD, CliContext, CliError, CommandResult, DIM, GREEN, Output, RED, YELLOW, display_safe, exit,
};
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::{LogLevel, LogsArgs};

/// The interval at which `--follow` reads the file.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The longest line that is read, in bytes; the rest of a longer one is skipped.
const MAX_LINE_BYTES: u64 = 64 * 1024;

/// Prints the last lines of the log, and with `--follow` the new ones.
///
/// # Errors
/// The home is missing or not trusted, or the log cannot be read.
pub fn cmd_logs(session: &CliContext, args: &LogsArgs) -> CommandResult {
    let home = session.trusted_home()?;
    let path = home.log_file();
    let output = session.output;
    let mut reader = LogReader::new(path);
    let mut last = VecDeque::new();
    let limit = usize::try_from(args.lines).unwrap_or(usize::MAX);
    reader.read_past(|line| {
        if limit > 0 && line.level() >= args.level {
            // Only the last lines are kept: the files together may be large.
            if last.len() == limit {
                last.pop_front();
            }
            last.push_back(line);
        }
    })?;
    if last.is_empty() && !args.follow {
        output.print_note(format!(
            "the log has no such lines; the kernel of {} writes it",
            OperatorCommand::RunKernel
        ));
    }
    for line in &last {
        line.print(output)?;
    }
    if !args.follow {
        return Ok(exit::OK);
    }
    session.block_on(Box::pin(async {
        let mut interrupted = signal(SignalKind::interrupt())?;
        let mut terminated = signal(SignalKind::terminate())?;
        loop {
            let mut printed = Ok(());
            reader.read_new(|line| {
                if printed.is_ok() && line.level() >= args.level {
                    printed = line.print(output);
                }
            })?;
            printed?;
            tokio::select! {
                _ = interrupted.recv() => return Ok(exit::OK),
                _ = terminated.recv() => return Ok(exit::OK),
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    }))?
}

/// A line of the log file. Extensions write parts of it, so it is untrusted.
#[derive(Debug, Clone, PartialEq)]
enum LogLine {
    Event(LogEvent),
    /// A line that is not an event, such as one of another program.
    Text(String),
}

/// An event of the log, as `tracing` formats it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct LogEvent {
    timestamp: String,
    level: String,
    #[serde(default)]
    target: String,
    #[serde(default)]
    fields: Map<String, Value>,
}

impl LogLine {
    fn parse(line: &[u8]) -> Self {
        match serde_json::from_slice(line) {
            Ok(event) => Self::Event(event),
            Err(_) => Self::Text(String::from_utf8_lossy(line).trim_end().to_owned()),
        }
    }

    /// Returns the level; a line that is not an event is always printed.
    fn level(&self) -> LogLevel {
        let Self::Event(event) = self else { return LogLevel::Error };
        match event.level.as_str() {
            "TRACE" => LogLevel::Trace,
            "DEBUG" => LogLevel::Debug,
            "INFO" => LogLevel::Info,
            "WARN" => LogLevel::Warn,
            _ => LogLevel::Error,
        }
    }

    fn print(&self, output: Output) -> Result<(), CliError> {
        match self {
            Self::Event(LogEvent { timestamp, level, target, fields }) if output.json => output
                .print_json(&json!({
                    "timestamp": timestamp, "level": level, "target": target, "fields": fields,
                })),
            Self::Text(text) if output.json => output.print_json(&json!({ "text": text })),
            Self::Text(text) => output.print_line(display_safe(text)),
            Self::Event(event) => {
                let style = match self.level() {
                    LogLevel::Error => RED,
                    LogLevel::Warn => YELLOW,
                    LogLevel::Info => GREEN,
                    LogLevel::Debug | LogLevel::Trace => DIM,
                };
                let (time, target) = (display_safe(&event.timestamp), display_safe(&event.target));
                let level = display_safe(&event.level);
                let text = display_safe(&event.text().replace('\n', " "));
                output.print_line(format!(
                    "{DIM}{time}{DIM:#} {style}{level:<5}{style:#} {BOLD}{target}{BOLD:#} {text}"
                ))
            }
        }
    }
}

impl LogEvent {
    /// Returns the message and the other fields.
    fn text(&self) -> String {
        let as_text =
            |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let message = self.fields.get("message").map(as_text);
        let others = self.fields.iter().filter(|(name, _)| *name != "message");
        let others = others.map(|(name, value)| format!("{name}={}", as_text(value)));
        message.into_iter().chain(others).collect::<Vec<_>>().join(" ")
    }
}

/// A reader of the log file that follows it when it is rotated.
struct LogReader {
    path: PathBuf,
    /// The file that was read last, and the position after its last complete line.
    current: Option<(File, u64)>,
}

impl LogReader {
    fn new(path: PathBuf) -> Self {
        Self { path, current: None }
    }

    /// Reads all lines that the files have.
    fn read_past(&mut self, mut line: impl FnMut(LogLine)) -> Result<(), CliError> {
        let files = rotated_files(&self.path, LogLimits::default());
        for path in files.iter().filter(|path| **path != self.path) {
            // A file may be rotated away in between.
            if let Some(mut file) = open_log(path)? {
                read_lines(&mut file, 0, &mut line).map_err(|error| CliError::io(path, &error))?;
            }
        }
        self.read_new(line)
    }

    /// Reads the lines since the last call.
    fn read_new(&mut self, mut line: impl FnMut(LogLine)) -> Result<(), CliError> {
        let failed = |error| CliError::io(&self.path, &error);
        if let Some((file, position)) = &mut self.current {
            *position = read_lines(file, *position, &mut line).map_err(failed)?;
        }
        // Read to its end first: it may have been rotated away just now.
        let is_current = match (&self.current, std::fs::symlink_metadata(&self.path)) {
            (Some((file, _)), Ok(found)) => {
                let read = file.metadata().map_err(failed)?;
                (read.dev(), read.ino()) == (found.dev(), found.ino())
            }
            (Some(_), Err(_)) => true,
            (None, _) => false,
        };
        if !is_current && let Some(mut file) = open_log(&self.path)? {
            let position = read_lines(&mut file, 0, &mut line).map_err(failed)?;
            self.current = Some((file, position));
        }
        Ok(())
    }
}

/// Opens a log file; `None` if it does not exist.
fn open_log(path: &Path) -> Result<Option<File>, CliError> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CliError::io(path, &error)),
    }
}

/// Reads the complete lines from a position; returns the position after the last one.
fn read_lines(
    file: &mut File,
    mut position: u64,
    line: &mut impl FnMut(LogLine),
) -> io::Result<u64> {
    file.seek(SeekFrom::Start(position))?;
    let mut reader = BufReader::new(file);
    loop {
        let mut bytes = Vec::new();
        let mut read = (&mut reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes)? as u64;
        if read == 0 {
            return Ok(position);
        }
        if bytes.last() != Some(&b'\n') {
            let rest = skip_line(&mut reader)?;
            // A line without its end is still being written.
            let Some(rest) = rest else { return Ok(position) };
            read += rest;
        }
        position += read;
        line(LogLine::parse(bytes.trim_ascii_end()));
    }
}

/// Skips the rest of a line; returns its length, or `None` if the line has no end.
fn skip_line(reader: &mut impl io::BufRead) -> io::Result<Option<u64>> {
    let mut skipped = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(None);
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(buffer.len(), |end| end + 1);
        reader.consume(length);
        skipped += length as u64;
        if end.is_some() {
            return Ok(Some(skipped));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use skillhost_files::RotatedLog;

    use super::*;

    fn new_lines(reader: &mut LogReader) -> Vec<String> {
        let mut lines = Vec::new();
        reader
            .read_new(|line| {
                lines.push(match line {
                    LogLine::Event(event) => event.text(),
                    LogLine::Text(text) => text,
                });
            })
            .unwrap();
        lines
    }

    #[test]
    fn event_has_level_and_fields() {
        let line = br#"{"timestamp":"2026-01-02T03:04:05Z","level":"WARN",
            "fields":{"id":"echo","message":"stop timed out","n":3},"target":"kernel"}"#;
        let parsed = LogLine::parse(line);
        assert_eq!(parsed.level(), LogLevel::Warn);
        let LogLine::Event(event) = parsed else { panic!("not an event") };
        assert_eq!(event.text(), "stop timed out id=echo n=3");
        let text = LogLine::parse(b"\xff{ no event");
        assert_eq!(text, LogLine::Text("\u{fffd}{ no event".to_owned()));
        assert_eq!(text.level(), LogLevel::Error);
    }

    #[test]
    fn reader_follows_rotated_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kernel.log");
        let mut reader = LogReader::new(path.clone());
        assert_eq!(new_lines(&mut reader), [""; 0]);
        let limits = LogLimits { max_bytes: 8, max_files: 3 };
        let mut log = RotatedLog::open(&path, limits).unwrap();
        log.write_all(b"one\n").unwrap();
        assert_eq!(new_lines(&mut reader), ["one"]);
        log.write_all(b"two\n").unwrap();
        log.write_all(b"three\n").unwrap();
        assert_eq!(new_lines(&mut reader), ["two", "three"]);
        assert_eq!(new_lines(&mut reader), [""; 0]);
    }

    #[test]
    fn long_and_partial_lines_are_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kernel.log");
        let mut reader = LogReader::new(path.clone());
        let long = "x".repeat(3 * MAX_LINE_BYTES as usize);
        let mut file = File::create(&path).unwrap();
        write!(file, "{long}\nnext\npart").unwrap();
        let lines = new_lines(&mut reader);
        assert_eq!(lines[0].len(), MAX_LINE_BYTES as usize);
        assert_eq!(lines[1..], ["next"]);
        file.write_all(b"ial\n").unwrap();
        assert_eq!(new_lines(&mut reader), ["partial"]);
    }
}
