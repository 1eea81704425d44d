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

/// Wraps a line at `width` columns: between words where possible, else between any two characters, as
/// no reviewed text may lie beyond the edge. A blank at which a line is wrapped is left out. Tabs become
/// blanks.
pub(in super::super) fn wrap_line(line: &[StyledSpan], width: usize) -> Vec<StyledLine> {
    let width = width.max(2);
    let cells = expand_tabs(line);
    let mut lines = Vec::new();
    let mut start = 0;
    loop {
        let mut column = 0;
        let fits = cells[start..].iter().take_while(|(character, _)| {
            column += character.width().unwrap_or(0);
            column <= width
        });
        let end = start + fits.count();
        let row = &cells[start..end];
        let is_blank = |cell: &(char, Style)| cell.0 == ' ';
        let indent = row.iter().take_while(|cell| is_blank(cell)).count();
        let (shown, next) = match cells.get(end) {
            None => (end, end),
            Some(cell) if is_blank(cell) => (end, end + 1),
            Some(_) => match row.iter().rposition(is_blank).filter(|blank| *blank > indent) {
                Some(blank) => (start + blank, start + blank + 1),
                None => (end, end),
            },
        };
        lines.push(join_spans(&cells[start..shown]));
        start = next;
        if start >= cells.len() {
            return lines;
        }
    }
}

/// Returns the characters of a line with their styles.
fn expand_tabs(line: &[StyledSpan]) -> Vec<(char, Style)> {
    let mut cells = Vec::new();
    let mut column = 0;
    for span in line {
        for character in span.text.chars() {
            let (character, times) = match character {
                '\t' => (' ', TAB - column % TAB),
                other => (other, 1),
            };
            cells.extend(std::iter::repeat_n((character, span.style), times));
            column += times * character.width().unwrap_or(0);
        }
    }
    cells
}

fn join_spans(cells: &[(char, Style)]) -> StyledLine {
    let spans = cells.chunk_by(|a, b| a.1 == b.1);
    let join = |span: &[(char, Style)]| span.iter().map(|cell| cell.0).collect();
    spans.map(|span| StyledSpan { style: span[0].1, text: join(span) }).collect()
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
        assert_eq!(texts(&[StyledSpan::plain("one two three")], 8), ["one two", "three"]);
        assert_eq!(texts(&[StyledSpan::plain("one two")], 5), ["one", "two"]);
        assert_eq!(texts(&[StyledSpan::plain("  longest")], 5), ["  lon", "gest"]);
        assert_eq!(texts(&[StyledSpan::new(RED, "a b"), StyledSpan::plain("cd")], 3), ["a", "bcd"]);
    }

    #[test]
    fn span_is_sanitized_to_one_line() {
        let line = [StyledSpan::new(RED, "a\nb\u{1b}[2J")];
        assert_eq!(format_line(&line, false), "a\\u{a}b\\u{1b}[2J");
        assert_eq!(format_line(&line, true), "\u{1b}[1m\u{1b}[31ma\\u{a}b\\u{1b}[2J\u{1b}[0m");
    }
}
