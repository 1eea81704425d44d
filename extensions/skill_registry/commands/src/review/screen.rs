//! The terminal during a review; restored on every exit path.

use std::io::{self, Write as _};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};

use skillhost_terminal::{CliContext, ScreenSize, exit};
use termimad::crossterm::cursor::{Hide, MoveTo, Show};
use termimad::crossterm::event::{
    self, DisableBracketedPaste, EnableBracketedPaste, Event, KeyCode, KeyEventKind, KeyModifiers,
};
use termimad::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use termimad::crossterm::{execute, queue};
use tokio::signal::unix::{SignalKind, signal};

use super::super::page::{StyledLine, format_line, wrap_line};

/// Whether this process holds the terminal in raw mode.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// An input of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ScreenInput {
    Key(KeyCode),
    /// Ctrl-C.
    Interrupt,
    /// Pasted text, which is never a command.
    Paste(String),
    /// The size of the terminal changed.
    Resized,
}

/// A guard that holds the terminal in raw mode until it is dropped.
pub(super) struct RawTerminal {
    colour: bool,
}

impl RawTerminal {
    pub(super) fn enter(session: &CliContext) -> io::Result<Self> {
        // The hook and the task last for the process; a second review must not add another pair.
        static PREPARED: Once = Once::new();
        PREPARED.call_once(|| {
            let usual = std::panic::take_hook();
            // The alternate screen would swallow the message, so the terminal is restored first.
            std::panic::set_hook(Box::new(move |panic| {
                restore_terminal();
                usual(panic);
            }));
            let (listening, listens) = channel();
            let _ = session.spawn(Box::pin(end_by_signal(listening)));
            // The handler must be ready before raw mode: a signal would otherwise leave the
            // terminal in it.
            let _ = listens.recv();
        });
        enter_raw_mode()?;
        Ok(Self { colour: session.output.uses_color() })
    }

    /// Releases the terminal while `work` runs.
    pub(super) fn suspend<T>(&mut self, work: impl FnOnce() -> T) -> io::Result<T> {
        restore_terminal();
        let done = work();
        enter_raw_mode()?;
        Ok(done)
    }

    /// Returns the columns and rows of the terminal.
    pub(super) fn size(&self) -> (usize, usize) {
        let screen = ScreenSize::from_stream(&io::stdout()).unwrap_or(ScreenSize::FALLBACK);
        (screen.columns, screen.lines)
    }

    /// Draws lines at the top and at the bottom; longer ones are wrapped.
    pub(super) fn draw(&self, top: &[StyledLine], bottom: &[StyledLine]) -> io::Result<()> {
        let (width, height) = self.size();
        let broken = |lines: &[StyledLine]| -> Vec<StyledLine> {
            lines.iter().flat_map(|line| wrap_line(line, width)).collect()
        };
        let (mut rows, bottom) = (broken(top), broken(bottom));
        rows.resize(height.saturating_sub(bottom.len()), StyledLine::new());
        rows.extend(bottom);
        // One write per frame avoids flicker.
        let mut bytes = Vec::new();
        for (row, line) in (0_u16..).zip(rows.iter().take(height)) {
            queue!(bytes, MoveTo(0, row), Clear(ClearType::CurrentLine))?;
            bytes.extend(format_line(line, self.colour).into_bytes());
        }
        let mut stdout = io::stdout().lock();
        stdout.write_all(&bytes)?;
        stdout.flush()
    }

    /// Waits for an input of the user.
    pub(super) fn input(&self) -> io::Result<ScreenInput> {
        loop {
            match event::read()? {
                // Terminals with the extended keyboard protocol also report releases.
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    let control = key.modifiers.contains(KeyModifiers::CONTROL);
                    match key.code {
                        KeyCode::Char('c' | 'd') if control => return Ok(ScreenInput::Interrupt),
                        _ if control => {}
                        code => return Ok(ScreenInput::Key(code)),
                    }
                }
                Event::Paste(text) => return Ok(ScreenInput::Paste(text)),
                Event::Resize(..) => return Ok(ScreenInput::Resized),
                _ => {}
            }
        }
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        restore_terminal();
    }
}

fn enter_raw_mode() -> io::Result<()> {
    TAKEN.store(true, Ordering::SeqCst);
    let taken = enable_raw_mode()
        .and_then(|()| execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste, Hide));
    // A partial switch would leave the terminal unusable.
    if taken.is_err() {
        restore_terminal();
    }
    taken
}

fn restore_terminal() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        // A caller cannot act on an error, and raw mode has to end in any case.
        let _ = execute!(io::stdout(), DisableBracketedPaste, Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

/// Restores the terminal and ends the program on a signal; the next use of the ledger completes an
/// interrupted operation. While an editor holds the terminal, Ctrl-C belongs to the editor.
async fn end_by_signal(listening: Sender<()>) {
    let listen = |kind| signal(kind).ok();
    let (Some(mut interrupt), Some(mut terminate), Some(mut hangup)) = (
        listen(SignalKind::interrupt()),
        listen(SignalKind::terminate()),
        listen(SignalKind::hangup()),
    ) else {
        return;
    };
    let _ = listening.send(());
    loop {
        let code = tokio::select! {
            _ = interrupt.recv() => exit::INTERRUPTED,
            // By convention the exit code of a signal is 128 plus its number.
            _ = terminate.recv() => 143,
            _ = hangup.recv() => 129,
        };
        // Raw mode turns Ctrl-C into a key; a SIGINT therefore comes from outside or from an
        // editor.
        if code != exit::INTERRUPTED || TAKEN.load(Ordering::SeqCst) {
            restore_terminal();
            std::process::exit(i32::from(code));
        }
    }
}
