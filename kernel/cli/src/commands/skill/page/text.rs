//! Styled lines, and how they are broken to a width.

use anstyle::Style;
use unicode_width::UnicodeWidthChar as _;

use crate::output::show;

/// How many columns a tab moves on to a multiple of.
const TAB: usize = 4;

/// A piece of a line in one style; fit to be printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Span {
    style: Style,
    text: String,
}

/// Pieces from left to right.
pub(in super::super) type Line = Vec<Span>;

impl Span {
    /// Makes a piece of any text: it is sanitised and stays on its line.
    pub(in super::super) fn new(style: Style, text: &str) -> Self {
        Self { style, text: show(text).replace('\n', "\\u{a}") }
    }

    pub(in super::super) fn plain(text: &str) -> Self {
        Self::new(Style::new(), text)
    }
}

/// Writes a line out, with or without colours.
pub(in super::super) fn written_line(line: &[Span], colour: bool) -> String {
    let mut text = String::new();
    for span in line {
        let style = if colour { span.style } else { Style::new() };
        text.push_str(&format!("{style}{}{style:#}", span.text));
    }
    text
}

/// Breaks a line into lines of at most `width` columns, between any two characters: of what is
/// reviewed nothing may lie beyond the edge. Tabs become blanks.
pub(in super::super) fn wrapped(line: &[Span], width: usize) -> Vec<Line> {
    let width = width.max(2);
    let mut lines = vec![Line::new()];
    let mut column = 0;
    for span in line {
        let mut piece = Span { style: span.style, text: String::new() };
        for character in span.text.chars() {
            let (character, times) = match character {
                '\t' => (' ', TAB - column % TAB),
                other => (other, 1),
            };
            for _ in 0..times {
                let wide = character.width().unwrap_or(0);
                if column + wide > width {
                    push(&mut lines, &mut piece);
                    lines.push(Line::new());
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

fn push(lines: &mut [Line], piece: &mut Span) {
    let text = std::mem::take(&mut piece.text);
    if let Some(last) = lines.last_mut().filter(|_| !text.is_empty()) {
        last.push(Span { style: piece.style, text });
    }
}

/// The columns a line takes; tabs must be gone.
pub(super) fn columns(line: &[Span]) -> usize {
    line.iter().flat_map(|span| span.text.chars()).map(|c| c.width().unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::RED;

    fn texts(line: &[Span], width: usize) -> Vec<String> {
        wrapped(line, width).iter().map(|line| written_line(line, false)).collect()
    }

    #[test]
    fn lines_are_broken_at_the_edge() {
        assert_eq!(texts(&[Span::plain("abcdefg")], 3), ["abc", "def", "g"]);
        assert_eq!(texts(&[Span::plain("")], 3), [""]);
        assert_eq!(texts(&[Span::plain("緑茶です")], 5), ["緑茶", "です"]);
        assert_eq!(texts(&[Span::plain("a\tb")], 80), ["a   b"]);
        assert_eq!(texts(&[Span::new(RED, "ab"), Span::plain("cd")], 3), ["abc", "d"]);
        assert_eq!(texts(&[Span::plain("e\u{301}e\u{301}")], 2), ["e\u{301}e\u{301}"]);
    }

    #[test]
    fn a_piece_stays_on_its_line_and_steers_nothing() {
        let line = [Span::new(RED, "a\nb\u{1b}[2J")];
        assert_eq!(written_line(&line, false), "a\\u{a}b\\u{1b}[2J");
        assert_eq!(written_line(&line, true), "\u{1b}[1m\u{1b}[31ma\\u{a}b\\u{1b}[2J\u{1b}[0m");
    }
}
