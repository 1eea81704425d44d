//! The size of a terminal.

use std::io::IsTerminal;
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;

/// The size of a terminal, in columns and lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScreenSize {
    /// The number of columns.
    pub columns: usize,
    /// The number of lines.
    pub lines: usize,
}

impl ScreenSize {
    /// The size of a terminal that does not report one, as some pseudo-terminals.
    pub const FALLBACK: Self = Self { columns: 80, lines: 24 };

    /// Returns the size of the terminal behind a stream, or `None` if it is not a terminal.
    pub fn from_stream(stream: &(impl AsFd + IsTerminal)) -> Option<Self> {
        if !stream.is_terminal() {
            return None;
        }
        Some(match tcgetwinsize(stream) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Self { columns: usize::from(size.ws_col), lines: usize::from(size.ws_row) }
            }
            _ => Self::FALLBACK,
        })
    }
}
