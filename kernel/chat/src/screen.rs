//! Lines that fit into the terminal.

use std::io;

use skillhost_terminal::{ScreenSize, wrap_line};
use unicode_width::UnicodeWidthChar as _;

/// Breaks a line between words, so that it fits into the terminal on standard error; a word that is
/// too long keeps its line.
pub(crate) fn wrap_for_stderr(line: &str) -> String {
    match ScreenSize::from_stream(&io::stderr()) {
        Some(screen) => wrap_line(line, screen.columns, 0),
        None => line.to_owned(),
    }
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
    fn long_line_ends_with_ellipsis() {
        assert_eq!(cut_line("short", 5), "short");
        assert_eq!(cut_line("longer", 5), "long…");
        assert_eq!(cut_line("日本語", 5), "日本…");
    }
}
