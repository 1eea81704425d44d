//! Styled lines, and their wrapping to a width.

use anstyle::Style;
use skillhost_terminal::display_safe;
use unicode_width::UnicodeWidthChar as _;

/// The tab width, in columns.
const TAB: usize = 4;

/// A printable span of a line in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct StyledSpan {
    style: Style,
    text: String,
}

/// Spans from left to right.
pub(in super::super) type StyledLine = Vec<StyledSpan>;

impl StyledSpan {
    /// Creates a span from untrusted text: the text is sanitized and stays on its line.
    pub(in super::super) fn new(style: Style, text: &str) -> Self {
        Self { style, text: display_safe(text).replace('\n', "\\u{a}") }
    }

    pub(in super::super) fn plain(text: &str) -> Self {
        Self::new(Style::new(), text)
    }
}

/// Formats a line, with or without colors.
pub(in super::super) fn format_line(line: &[StyledSpan], colour: bool) -> String {
    let mut text = String::new();
    for span in line {
        let style = if colour { span.style } else { Style::new() };
        text.push_str(&format!("{style}{}{style:#}", span.text));
    }
    text
}

/// Wraps a line at `width` columns, between any two characters: no reviewed text may lie beyond the
/// edge. Tabs become blanks.
pub(in super::super) fn wrap_line(line: &[StyledSpan], width: usize) -> Vec<StyledLine> {
    let width = width.max(2);
    let mut lines = vec![StyledLine::new()];
    let mut column = 0;
    for span in line {
        let mut piece = StyledSpan { style: span.style, text: String::new() };
        for character in span.text.chars() {
            let (character, times) = match character {
                '\t' => (' ', TAB - column % TAB),
                other => (other, 1),
            };
            for _ in 0..times {
                let wide = character.width().unwrap_or(0);
                if column + wide > width {
                    push(&mut lines, &mut piece);
                    lines.push(StyledLine::new());
                    column = 0;
                }
                piece.text.push(character);
                column += wide;
            }
        }
        push(&mut lines, &mut piece);
    }
    lines
}

fn push(lines: &mut [StyledLine], piece: &mut StyledSpan) {
    let text = std::mem::take(&mut piece.text);
    if let Some(last) = lines.last_mut().filter(|_| !text.is_empty()) {
        last.push(StyledSpan { style: piece.style, text });
    }
}

/// Returns the width of a line in columns; tabs must have been replaced.
pub(super) fn line_width(line: &[StyledSpan]) -> usize {
    line.iter().flat_map(|span| span.text.chars()).map(|c| c.width().unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use skillhost_terminal::RED;

    fn texts(line: &[StyledSpan], width: usize) -> Vec<String> {
        wrap_line(line, width).iter().map(|line| format_line(line, false)).collect()
    }

    #[test]
    fn lines_wrap_at_width() {
        assert_eq!(texts(&[StyledSpan::plain("abcdefg")], 3), ["abc", "def", "g"]);
        assert_eq!(texts(&[StyledSpan::plain("")], 3), [""]);
        assert_eq!(texts(&[StyledSpan::plain("緑茶です")], 5), ["緑茶", "です"]);
        assert_eq!(texts(&[StyledSpan::plain("a\tb")], 80), ["a   b"]);
        assert_eq!(texts(&[StyledSpan::new(RED, "ab"), StyledSpan::plain("cd")], 3), ["abc", "d"]);
        assert_eq!(texts(&[StyledSpan::plain("e\u{301}e\u{301}")], 2), ["e\u{301}e\u{301}"]);
    }

    #[test]
    fn span_is_sanitized_to_one_line() {
        let line = [StyledSpan::new(RED, "a\nb\u{1b}[2J")];
        assert_eq!(format_line(&line, false), "a\\u{a}b\\u{1b}[2J");
        assert_eq!(format_line(&line, true), "\u{1b}[1m\u{1b}[31ma\\u{a}b\\u{1b}[2J\u{1b}[0m");
    }
}
