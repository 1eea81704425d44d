//! The canonical diff of two texts.

use std::fmt::Write as _;
use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};

use crate::diff::names::quoted;

/// How many unchanged lines surround a change.
const CONTEXT: usize = 3;

/// Splits a text into lines that have their ends.
pub(super) fn whole_lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Finds the differences of two texts by lines, in a time that stays near the number of lines; where
/// texts have little in common the differences are not the fewest.
pub(super) fn differences(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    capture_diff_slices(Algorithm::Myers, old, new)
}

/// Makes the canonical diff of two texts: three lines of context, the path with `a/` and `b/`,
/// nothing at all where the texts are equal. [`apply`](super::apply) makes the new text of it again.
#[must_use]
pub fn unified(base: &str, new: &str, path: &str) -> String {
    let (old, new) = (whole_lines(base), whole_lines(new));
    let mut diff = String::new();
    for group in group_diff_ops(differences(&old, &new), CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        if diff.is_empty() {
            let side = |side: &str| quoted(&format!("{side}/{path}"));
            diff = format!("--- {}\n+++ {}\n", side("a"), side("b"));
        }
        let old_range = first.old_range().start..last.old_range().end;
        let new_range = first.new_range().start..last.new_range().end;
        let _ = writeln!(diff, "@@ -{} +{} @@", span(&old_range), span(&new_range));
        for op in group {
            match op {
                DiffOp::Equal { .. } => write_lines(&mut diff, ' ', &old[op.old_range()]),
                _ => {
                    write_lines(&mut diff, '-', &old[op.old_range()]);
                    write_lines(&mut diff, '+', &new[op.new_range()]);
                }
            }
        }
    }
    diff
}

/// Formats a range as headers have it: an empty one stands after the line it names.
fn span(range: &Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => (range.start + 1).to_string(),
        len => format!("{},{len}", range.start + 1),
    }
}

fn write_lines(diff: &mut String, tag: char, lines: &[&str]) {
    for line in lines {
        diff.push(tag);
        diff.push_str(line);
        if !line.ends_with('\n') {
            diff.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// Counts the lines a change adds and removes.
#[must_use]
pub fn counts(base: &str, new: &str) -> (usize, usize) {
    let changed = differences(&whole_lines(base), &whole_lines(new))
        .into_iter()
        .filter(|op| !matches!(op, DiffOp::Equal { .. }));
    changed.fold((0, 0), |(added, removed), op| {
        (added + op.new_range().len(), removed + op.old_range().len())
    })
}
