//! The source of a chat's lines: a line editor on a terminal, else standard input.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Editor, ExternalPrinter};
use skillhost_terminal::{CliContext, CliError};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines, Stdin, stdin};

use super::complete::CompletionNames;
use crate::line_editor::{bind_newline, editor_config};
use crate::stop_signals::StopSignals;

const PROMPT: &str = "> ";

/// The outcome of waiting for a line.
pub(super) enum InputLine {
    Text(String),
    End,
    Interrupted,
}

/// The lines of a chat.
pub(super) enum LineInput {
    Terminal(Box<LineEditor>),
    Plain(Option<Lines<BufReader<Stdin>>>),
}

/// A line editor.
pub(super) struct LineEditor {
    /// `None` while a blocking thread waits for a line.
    editor: Option<Editor<CompletionNames, FileHistory>>,
    history: Option<PathBuf>,
    /// Keeps a pipe open: only with it does the editor react to signals that another thread
    /// received.
    _printer: Box<dyn ExternalPrinter + Send>,
    /// The terminal modes before the editor changed them.
    before: Termios,
}

impl LineInput {
    /// Opens the terminal with the lines of earlier chats, or standard input if it is not a
    /// terminal.
    pub(super) fn open(session: &CliContext) -> Result<Self, CliError> {
        if session.output.json || !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Ok(Self::Plain(None));
        }
        let before = tcgetattr(io::stdin()).map_err(io::Error::from)?;
        let config = editor_config().map_err(readline_error)?.build();
        let mut editor = Editor::with_config(config).map_err(readline_error)?;
        bind_newline(&mut editor);
        editor.set_helper(Some(CompletionNames::default()));
        let history = session.environment.state_dir().map(|folder| folder.join("chat-history"));
        if let Some(history) = &history {
            // The first chat of a home has no history file.
            let _ = editor.load_history(history);
        }
        let printer = Box::new(editor.create_external_printer().map_err(readline_error)?);
        let editor = Some(editor);
        Ok(Self::Terminal(Box::new(LineEditor { editor, history, _printer: printer, before })))
    }

    pub(super) fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }

    /// Replaces the names that Tab completes.
    pub(super) fn set_completions(&mut self, names: CompletionNames) {
        if let Self::Terminal(terminal) = self
            && let Some(editor) = &mut terminal.editor
        {
            editor.set_helper(Some(names));
        }
    }

    /// Waits for a line.
    pub(super) async fn next(
        &mut self,
        interrupted: &mut StopSignals,
    ) -> Result<InputLine, CliError> {
        match self {
            Self::Terminal(terminal) => terminal.next(interrupted).await,
            Self::Plain(lines) => {
                let lines = lines.get_or_insert_with(|| BufReader::new(stdin()).lines());
                tokio::select! {
                    biased;
                    () = interrupted.recv() => Ok(InputLine::Interrupted),
                    line = lines.next_line() => Ok(line?.map_or(InputLine::End, InputLine::Text)),
                }
            }
        }
    }

    /// Stores the history for the next chat. The last use of the terminal: an editor that still
    /// waits for a line does not restore its modes.
    pub(super) fn close(self, session: &CliContext) {
        let Self::Terminal(terminal) = self else { return };
        if terminal.editor.is_none() {
            // A closed terminal has no modes to restore.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &terminal.before);
        }
        let LineEditor { editor: Some(mut editor), history: Some(path), .. } = *terminal else {
            return;
        };
        let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let kept = folder.map_err(failed_io).and_then(|()| editor.append_history(&path));
        if let Err(error) = kept {
            session
                .output
                .print_note(format!("{}: the history is not kept: {error}", path.display()));
        }
    }
}

impl LineEditor {
    async fn next(&mut self, interrupted: &mut StopSignals) -> Result<InputLine, CliError> {
        let Some(mut editor) = self.editor.take() else { return Ok(InputLine::End) };
        // The editor blocks its thread; on the runtime it would block the services.
        let reading = tokio::task::spawn_blocking(move || {
            let line = editor.readline(PROMPT);
            if let Ok(line) = &line {
                // A line missing from the history is not worth an error.
                let _ = editor.add_history_entry(line.as_str());
            }
            (editor, line)
        });
        let read = tokio::select! {
            biased;
            () = interrupted.recv() => {
                // The signal arrived before the editor installed its handler, so the editor does
                // not restore the terminal modes itself. A closed terminal has none to restore.
                let restored = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
                if !interrupted.is_hung_up() {
                    restored.map_err(io::Error::from)?;
                }
                return Ok(InputLine::Interrupted);
            }
            read = reading => read.map_err(io::Error::other)?,
        };
        let (editor, line) = read;
        self.editor = Some(editor);
        match line {
            Ok(line) => Ok(InputLine::Text(line)),
            Err(ReadlineError::Eof) => Ok(InputLine::End),
            Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => {
                Ok(InputLine::Interrupted)
            }
            Err(error) => Err(readline_error(error)),
        }
    }
}

fn failed_io(error: io::Error) -> ReadlineError {
    ReadlineError::Io(error)
}

#[expect(clippy::needless_pass_by_value, reason = "goes into map_err")]
fn readline_error(error: ReadlineError) -> CliError {
    CliError::new(skillhost_terminal::exit::IO, format!("the terminal: {error}"))
}
