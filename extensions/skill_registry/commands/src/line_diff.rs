//! The changed lines of a file.

use std::fmt::Write as _;

use anstyle::Style;
use similar::{ChangeTag, TextDiff};
use skillhost_terminal::{GREEN, RED, YELLOW};

/// The number of context lines around a change in a diff.
const CONTEXT: usize = 2;

/// Renders the changed lines with context; invisible changes are named.
pub(super) fn diff_lines(before: &str, after: &str) -> String {
    let diff = TextDiff::from_lines(before, after);
    let mut out = String::new();
    for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
        // Writing into a String cannot fail.
        let _ = writeln!(out, "{}", hunk.header());
        for change in hunk.iter_changes() {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            // A carriage return is invisible but may be the only change of a line.
            let line = change.value().trim_end_matches('\n').replace('\r', "\u{240d}");
            let _ = writeln!(out, "{sign}{line}");
        }
    }
    out
}

/// Returns the style of a line of a diff; `None` for context.
pub(super) fn line_style(line: &str) -> Option<Style> {
    match line.as_bytes().first() {
        Some(b'+') => Some(GREEN),
        Some(b'-') => Some(RED),
        Some(b'@') => Some(YELLOW),
        _ => None,
    }
}
