//! A unified diff as lines of a page: in one column, or side by side.

use anstyle::{AnsiColor, Style};
use skill_diff::diff_words;
use skillhost_terminal::DIM;

use super::text::{StyledLine, StyledSpan, line_width, wrap_line};

const OLD: Style = AnsiColor::Red.on_default();
const NEW: Style = AnsiColor::Green.on_default();
const HUNK: Style = AnsiColor::Cyan.on_default();

/// The width of a line number, in columns.
const NUMBER: usize = 5;

/// The separator between the two sides.
const BETWEEN: &str = " │ ";

/// A row of a diff.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DiffRow<'d> {
    /// The header of a hunk.
    Hunk(&'d str),
    /// A line of both sides, with its numbers.
    Same(usize, usize, &'d str),
    /// Replaced lines; either side may be empty.
    Changed { old: Vec<(usize, &'d str)>, new: Vec<(usize, &'d str)> },
    /// A remark, such as a missing final newline.
    Remark(&'d str),
}

/// Parses a diff of one file in the ledger's format.
pub(super) fn parse_rows(diff: &str) -> Vec<DiffRow<'_>> {
    let mut rows = Vec::new();
    let (mut old_number, mut new_number) = (0, 0);
    // The lines before the first hunk name the files.
    let hunks = diff.split('\n').skip_while(|line| !line.starts_with("@@"));
    for line in hunks.filter(|line| !line.is_empty()) {
        let (mark, text) = line.split_at(1);
        match mark {
            "@" => {
                (old_number, new_number) = parse_hunk_starts(line);
                rows.push(DiffRow::Hunk(line));
            }
            "-" => {
                if !matches!(rows.last(), Some(DiffRow::Changed { new, .. }) if new.is_empty()) {
                    rows.push(DiffRow::Changed { old: Vec::new(), new: Vec::new() });
                }
                if let Some(DiffRow::Changed { old, .. }) = rows.last_mut() {
                    old.push((old_number, text));
                }
                old_number += 1;
            }
            "+" => {
                if !matches!(rows.last(), Some(DiffRow::Changed { .. })) {
                    rows.push(DiffRow::Changed { old: Vec::new(), new: Vec::new() });
                }
                if let Some(DiffRow::Changed { new, .. }) = rows.last_mut() {
                    new.push((new_number, text));
                }
                new_number += 1;
            }
            "\\" => rows.push(DiffRow::Remark(line)),
            _ => {
                rows.push(DiffRow::Same(old_number, new_number, text));
                old_number += 1;
                new_number += 1;
            }
        }
    }
    rows
}

/// Parses the first line numbers of a hunk from `@@ -3,4 +3,5 @@`.
fn parse_hunk_starts(header: &str) -> (usize, usize) {
    let start = |mark: char| {
        let numbers = header.split(' ').find_map(|word| word.strip_prefix(mark))?;
        numbers.split(',').next()?.parse().ok()
    };
    (start('-').unwrap_or(1), start('+').unwrap_or(1))
}

/// Renders the diff in one column, with the changed words marked.
pub(super) fn render_unified(rows: &[DiffRow<'_>]) -> Vec<StyledLine> {
    let mut lines = Vec::new();
    for row in rows {
        match row {
            DiffRow::Hunk(text) => lines.push(vec![StyledSpan::new(HUNK, text)]),
            DiffRow::Remark(text) => lines.push(vec![StyledSpan::new(DIM, text)]),
            DiffRow::Same(_, _, text) => {
                lines.push(vec![StyledSpan::plain(" "), StyledSpan::plain(text)]);
            }
            DiffRow::Changed { old, new } => {
                let (old, new) = mark_changes(old, new);
                for (style, mark, side) in [(OLD, "-", old), (NEW, "+", new)] {
                    for (_, line) in side {
                        lines.push([vec![StyledSpan::new(style, mark)], line].concat());
                    }
                }
            }
        }
    }
    lines
}

/// Renders the old text on the left and the new one on the right, each with its line numbers.
pub(super) fn render_side_by_side(rows: &[DiffRow<'_>], width: usize) -> Vec<StyledLine> {
    let side = (width.saturating_sub(BETWEEN.chars().count())) / 2;
    let mut lines = Vec::new();
    for row in rows {
        match row {
            DiffRow::Hunk(text) => lines.push(vec![StyledSpan::new(HUNK, text)]),
            DiffRow::Remark(text) => lines.push(vec![StyledSpan::new(DIM, text)]),
            DiffRow::Same(old, new, text) => {
                let line = || vec![StyledSpan::plain(text)];
                pair(&mut lines, Some((*old, line())), Some((*new, line())), side);
            }
            DiffRow::Changed { old, new } => {
                let (old, new) = mark_changes(old, new);
                let (mut old, mut new) = (old.into_iter(), new.into_iter());
                loop {
                    let cells = (old.next(), new.next());
                    if cells == (None, None) {
                        break;
                    }
                    pair(&mut lines, cells.0, cells.1, side);
                }
            }
        }
    }
    lines
}

type DiffCell = (usize, StyledLine);

/// Puts two lines side by side, on as many rows as the longer one takes.
fn pair(lines: &mut Vec<StyledLine>, old: Option<DiffCell>, new: Option<DiffCell>, side: usize) {
    let (old, new) = (cell(old, side), cell(new, side));
    for row in 0..old.len().max(new.len()) {
        let mut line = old.get(row).cloned().unwrap_or_default();
        let blanks = side.saturating_sub(line_width(&line));
        line.push(StyledSpan::plain(&" ".repeat(blanks)));
        line.push(StyledSpan::new(DIM, BETWEEN));
        line.extend(new.get(row).cloned().unwrap_or_default());
        lines.push(line);
    }
}

fn cell(cell: Option<DiffCell>, side: usize) -> Vec<StyledLine> {
    let Some((number, line)) = cell else { return Vec::new() };
    let numbered = |(row, line): (usize, StyledLine)| {
        let number = if row == 0 { number.to_string() } else { String::new() };
        let number = StyledSpan::new(DIM, &format!("{number:>width$} ", width = NUMBER - 1));
        [vec![number], line].concat()
    };
    wrap_line(&line, side.saturating_sub(NUMBER)).into_iter().enumerate().map(numbered).collect()
}

/// Returns the lines of both sides, with the changes within paired lines marked.
fn mark_changes(old: &[(usize, &str)], new: &[(usize, &str)]) -> (Vec<DiffCell>, Vec<DiffCell>) {
    let full_line = |style: Style, (number, text): &(usize, &str)| {
        (*number, vec![StyledSpan::new(style, text)])
    };
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for (old, new) in old.iter().zip(new) {
        let (before, after) = diff_words(old.1, new.1);
        // If no part of a line is equal, marks carry no information.
        if before.iter().chain(&after).all(|segment| segment.changed) {
            left.push(full_line(OLD, old));
            right.push(full_line(NEW, new));
            continue;
        }
        for (side, number, style, segments) in
            [(&mut left, old.0, OLD, before), (&mut right, new.0, NEW, after)]
        {
            let strong = style.bold().underline();
            let span = |segment: &skill_diff::WordSegment| {
                StyledSpan::new(if segment.changed { strong } else { style }, &segment.text)
            };
            side.push((number, segments.iter().map(span).collect()));
        }
    }
    left.extend(old.iter().skip(new.len()).map(|line| full_line(OLD, line)));
    right.extend(new.iter().skip(old.len()).map(|line| full_line(NEW, line)));
    (left, right)
}

#[cfg(test)]
mod tests {
    use super::super::text::format_line;
    use super::*;

    const DIFF: &str = "--- a/SKILL.md\n+++ b/SKILL.md\n@@ -3,4 +3,4 @@\n same\n-use `bd list`\n\
                        --- gone\n+use `bd ready`\n\\ No newline at end of file\n";

    #[test]
    fn diff_rows_follow_markers() {
        let expected = [
            DiffRow::Hunk("@@ -3,4 +3,4 @@"),
            DiffRow::Same(3, 3, "same"),
            DiffRow::Changed {
                old: vec![(4, "use `bd list`"), (5, "-- gone")],
                new: vec![(4, "use `bd ready`")],
            },
            DiffRow::Remark("\\ No newline at end of file"),
        ];
        assert_eq!(parse_rows(DIFF), expected);
    }

    #[test]
    fn changed_words_are_marked() {
        let text: Vec<String> =
            render_unified(&parse_rows(DIFF)).iter().map(|line| format_line(line, true)).collect();
        let [red, green] = ["\u{1b}[31m", "\u{1b}[32m"];
        assert_eq!(
            text[2],
            format!(
                "{red}-\u{1b}[0m{red}use `bd \u{1b}[0m\u{1b}[1m\u{1b}[4m{red}list\u{1b}[0m{red}`\u{1b}[0m"
            )
        );
        assert_eq!(
            text[4],
            format!(
                "{green}+\u{1b}[0m{green}use `bd \u{1b}[0m\u{1b}[1m\u{1b}[4m{green}ready\u{1b}[0m{green}`\u{1b}[0m"
            )
        );
    }

    #[test]
    fn columns_stay_aligned() {
        let text: Vec<String> = render_side_by_side(&parse_rows(DIFF), 33)
            .iter()
            .map(|line| format_line(line, false))
            .collect();
        let expected = [
            "@@ -3,4 +3,4 @@",
            "   3 same       │    3 same",
            "   4 use `bd    │    4 use `bd",
            "     list`      │      ready`",
            "   5 -- gone    │ ",
            "\\ No newline at end of file",
        ];
        assert_eq!(text, expected);
    }
}
