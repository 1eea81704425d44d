//! The size of the terminal, and lines that fit into it.

use std::io::{self, IsTerminal as _};

use rustix::termios::tcgetwinsize;
use unicode_width::UnicodeWidthChar as _;

/// The size of a terminal, in columns and lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScreenSize {
    pub(crate) columns: usize,
    pub(crate) lines: usize,
}

impl ScreenSize {
    /// Returns the size of the terminal on standard error, where prompts and progress are printed;
    /// `None` if there is none.
    pub(crate) fn of_stderr() -> Option<Self> {
        if !io::stderr().is_terminal() {
            return None;
        }
        Some(match tcgetwinsize(io::stderr()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Self { columns: usize::from(size.ws_col), lines: usize::from(size.ws_row) }
            }
            // Some pseudo-terminals report no size.
            _ => Self { columns: 80, lines: 24 },
        })
    }
}

/// Breaks a line between words, so that it fits into the terminal on standard error; a word that is
/// too long keeps its line.
pub(crate) fn wrap_for_stderr(line: &str) -> String {
    match ScreenSize::of_stderr() {
        Some(screen) => wrap_words(line, screen.columns),
        None => line.to_owned(),
    }
}

/// Breaks a line between words, so that it fits into a number of columns.
pub(crate) fn wrap_words(line: &str, columns: usize) -> String {
    let (mut text, mut used) = (String::new(), 0);
    for word in line.split(' ') {
        let width = text_width(word);
        if used > 0 && used + 1 + width > columns {
            text.push('\n');
            used = 0;
        } else if !text.is_empty() {
            text.push(' ');
            used += 1;
        }
        text.push_str(word);
        used += width;
    }
    text
}

/// Returns the beginning of a line that fits into a number of columns, with an ellipsis if
/// something is missing.
pub(crate) fn cut_line(line: &str, columns: usize) -> String {
    if text_width(line) <= columns {
        return line.to_owned();
    }
    let mut used = 1;
    let beginning = line.chars().take_while(|character| {
        used += character.width().unwrap_or(0);
        used <= columns
    });
    format!("{}…", beginning.collect::<String>())
}

fn text_width(text: &str) -> usize {
    text.chars().map(|character| character.width().unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap_words("one two three", 20), "one two three");
        assert_eq!(wrap_words("one two three", 8), "one two\nthree");
        assert_eq!(wrap_words("averylongword two", 4), "averylongword\ntwo");
        assert_eq!(wrap_words("日本 日本", 6), "日本\n日本");
        assert_eq!(wrap_words("", 6), "");
    }

    #[test]
    fn long_line_ends_with_ellipsis() {
        assert_eq!(cut_line("short", 5), "short");
        assert_eq!(cut_line("longer", 5), "long…");
        assert_eq!(cut_line("日本語", 5), "日本…");
    }
}
