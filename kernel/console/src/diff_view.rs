//! Unified diffs as two columns, with the changed words marked.

use maud::{Markup, html};
use skill_diff::{WordSegment, diff_words};

use crate::visible_text::draw_text;

/// A row of the table. The old and the new side each have a number and a text.
#[derive(Debug, PartialEq, Eq)]
enum DiffLinePair<'a> {
    /// A header, or a text that is no part of a hunk.
    Note(&'a str),
    Context {
        old: usize,
        new: usize,
        text: &'a str,
    },
    /// A removed line, its replacement, or both.
    Change {
        old: Option<(usize, &'a str)>,
        new: Option<(usize, &'a str)>,
    },
}

/// Draws a unified diff. Every line of it is drawn.
pub(crate) fn draw_diff(diff: &str) -> Markup {
    let rows = parse_rows(diff);
    html! {
        // Long lines scroll within the region, which keyboards reach by its tab index.
        div.diff role="region" aria-label="Changes" tabindex="0" {
            table {
                colgroup { col.narrow; col; col.narrow; col; }
                thead.unseen { tr { th { "Line" } th { "Before" } th { "Line" } th { "After" } } }
                tbody {
                    @for row in &rows { (draw_row(row)) }
                }
            }
        }
    }
}

fn draw_row(row: &DiffLinePair<'_>) -> Markup {
    match row {
        DiffLinePair::Note(text) => html! { tr.note { td colspan="4" { (draw_text(text)) } } },
        DiffLinePair::Context { old, new, text } => html! {
            tr {
                td.number.wide { (old) } td.line.wide { (draw_text(text)) }
                td.number { (new) } td.line { (draw_text(text)) }
            }
        },
        DiffLinePair::Change { old, new } => {
            let (before, after) = match (old, new) {
                (Some((_, old)), Some((_, new))) => diff_words(old, new),
                (Some((_, old)), None) => (whole_line(old), Vec::new()),
                (None, Some((_, new))) => (Vec::new(), whole_line(new)),
                (None, None) => (Vec::new(), Vec::new()),
            };
            html! {
                tr {
                    @match old {
                        Some((number, _)) => {
                            td.number { (number) }
                            td.line.removed { span.sign aria-label="removed" { "−" } (draw_segments(&before, false)) }
                        }
                        None => { td.number.absent {} td.line.absent {} }
                    }
                    @match new {
                        Some((number, _)) => {
                            td.number { (number) }
                            td.line.added { span.sign aria-label="added" { "+" } (draw_segments(&after, true)) }
                        }
                        None => { td.number.absent {} td.line.absent {} }
                    }
                }
            }
        }
    }
}

/// A line that is on one side only needs no marks.
fn whole_line(text: &str) -> Vec<WordSegment> {
    vec![WordSegment { text: text.to_owned(), changed: false }]
}

fn draw_segments(segments: &[WordSegment], added: bool) -> Markup {
    html! {
        @for segment in segments {
            @match (segment.changed, added) {
                (true, true) => ins { (draw_text(&segment.text)) },
                (true, false) => del { (draw_text(&segment.text)) },
                _ => (draw_text(&segment.text)),
            }
        }
    }
}

/// Splits a diff into rows. Removed lines are paired with the added lines that follow them.
fn parse_rows(diff: &str) -> Vec<DiffLinePair<'_>> {
    let mut rows = Vec::new();
    let (mut old, mut new) = (0, 0);
    let mut removed: Vec<(usize, &str)> = Vec::new();
    let mut added: Vec<(usize, &str)> = Vec::new();
    let mut in_hunk = false;
    for line in diff.split('\n') {
        let is_change = in_hunk && (line.starts_with('-') || line.starts_with('+'));
        // A removed line after added ones begins another change.
        if !is_change || (line.starts_with('-') && !added.is_empty()) {
            push_changes(&mut rows, &mut removed, &mut added);
        }
        // A line of a file may look like a header, but only within a hunk, with a sign before it.
        if let Some((old_start, new_start)) = parse_hunk_header(line) {
            (old, new, in_hunk) = (old_start, new_start, true);
            rows.push(DiffLinePair::Note(line));
        } else if in_hunk && let Some(text) = line.strip_prefix('-') {
            removed.push((old, text));
            old += 1;
        } else if in_hunk && let Some(text) = line.strip_prefix('+') {
            added.push((new, text));
            new += 1;
        } else if in_hunk && let Some(text) = line.strip_prefix(' ') {
            rows.push(DiffLinePair::Context { old, new, text });
            (old, new) = (old + 1, new + 1);
        } else if !line.is_empty() {
            rows.push(DiffLinePair::Note(line));
        }
    }
    // The last change has no line behind it.
    push_changes(&mut rows, &mut removed, &mut added);
    rows
}

fn push_changes<'a>(
    rows: &mut Vec<DiffLinePair<'a>>,
    removed: &mut Vec<(usize, &'a str)>,
    added: &mut Vec<(usize, &'a str)>,
) {
    // The shorter side has empty cells at its end.
    let count = removed.len().max(added.len());
    let (mut old, mut new) = (removed.drain(..), added.drain(..));
    for _ in 0..count {
        rows.push(DiffLinePair::Change { old: old.next(), new: new.next() });
    }
}

/// Returns the first lines of a hunk, from `@@ -1,7 +1,7 @@`.
fn parse_hunk_header(line: &str) -> Option<(usize, usize)> {
    let ranges = line.strip_prefix("@@ -")?;
    let (old, rest) = ranges.split_once(" +")?;
    let new = rest.split([' ', ',']).next()?;
    Some((old.split(',').next()?.parse().ok()?, new.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "--- a/SKILL.md\n+++ b/SKILL.md\n@@ -3,4 +3,4 @@\n one\n-two\n--- x\n+TWO\n \
                        three\n\\ No newline at end of file\n";

    #[test]
    fn removed_lines_are_paired() {
        assert_eq!(
            parse_rows(DIFF),
            [
                DiffLinePair::Note("--- a/SKILL.md"),
                DiffLinePair::Note("+++ b/SKILL.md"),
                DiffLinePair::Note("@@ -3,4 +3,4 @@"),
                DiffLinePair::Context { old: 3, new: 3, text: "one" },
                DiffLinePair::Change { old: Some((4, "two")), new: Some((4, "TWO")) },
                DiffLinePair::Change { old: Some((5, "-- x")), new: None },
                DiffLinePair::Context { old: 6, new: 5, text: "three" },
                DiffLinePair::Note("\\ No newline at end of file"),
            ]
        );
    }

    #[test]
    fn changed_words_are_marked() {
        let html = draw_diff("@@ -1 +1 @@\n-use `a<b`\n+use `c<b`\n").into_string();
        assert!(html.contains("use `<del>a</del>&lt;b`"), "{html}");
        assert!(html.contains("use `<ins>c</ins>&lt;b`"), "{html}");
    }
}
