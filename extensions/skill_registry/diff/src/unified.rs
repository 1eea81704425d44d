//! Canonical diffs of two texts.

use std::fmt::Write as _;
use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};

use crate::names::quote_name;

/// The number of unchanged lines around a change.
const CONTEXT: usize = 3;

/// The maximum number of compared lines of two texts: more than two texts of one MiB have, unless
/// their lines are very short.
pub(crate) const MAX_COMPARED: usize = 1 << 16;

/// Splits a text into lines with their endings.
pub(crate) fn lines_with_endings(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Returns the differences of two texts by lines.
///
/// Between the common lines at the start and the end, at most [`MAX_COMPARED`] lines are compared;
/// more are one replacement, because comparing a million repeating short lines takes a minute.
pub(crate) fn diff_lines(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let start = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let pairs = old[start..].iter().rev().zip(new[start..].iter().rev());
    // Common ends are cut before the limit applies, so small changes of large texts stay exact.
    let end = pairs.take_while(|(old, new)| old == new).count();
    let (old_len, new_len) = (old.len() - start - end, new.len() - start - end);
    if old_len + new_len <= MAX_COMPARED {
        return capture_diff_slices(Algorithm::Myers, old, new);
    }
    let equal = |old_index, new_index, len| DiffOp::Equal { old_index, new_index, len };
    let ops = [
        equal(0, 0, start),
        DiffOp::Replace { old_index: start, old_len, new_index: start, new_len },
        equal(start + old_len, start + new_len, end),
    ];
    ops.into_iter().filter(|op| !op.old_range().is_empty() || !op.new_range().is_empty()).collect()
}

/// Returns the canonical diff of two texts: three lines of context, the path with `a/` and `b/`,
/// an empty text for equal texts. [`apply_diff`](crate::apply_diff) restores the new text from it.
#[must_use]
pub fn unified_diff(base: &str, new: &str, path: &str) -> String {
    let (old, new) = (lines_with_endings(base), lines_with_endings(new));
    let mut diff = String::new();
    for group in group_diff_ops(diff_lines(&old, &new), CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        // The header is written with the first group, so that equal texts give an empty diff.
        if diff.is_empty() {
            let side = |side: &str| quote_name(&format!("{side}/{path}"));
            diff = format!("--- {}\n+++ {}\n", side("a"), side("b"));
        }
        let old_range = first.old_range().start..last.old_range().end;
        let new_range = first.new_range().start..last.new_range().end;
        let _ = writeln!(diff, "@@ -{} +{} @@", format_range(&old_range), format_range(&new_range));
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

/// Formats a range for a header: an empty range has the number of the line before it.
fn format_range(range: &Range<usize>) -> String {
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
pub fn count_changes(base: &str, new: &str) -> (usize, usize) {
    let changed = diff_lines(&lines_with_endings(base), &lines_with_endings(new))
        .into_iter()
        .filter(|op| !matches!(op, DiffOp::Equal { .. }));
    changed.fold((0, 0), |(added, removed), op| {
        (added + op.new_range().len(), removed + op.old_range().len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unified_diff_is_canonical() {
        let base = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\n";
        let new = "a\nB\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nx\nm";
        let expected = "\
--- a/references/x.md
+++ b/references/x.md
@@ -1,5 +1,5 @@
 a
-b
+B
 c
 d
 e
@@ -10,4 +10,5 @@
 j
 k
 l
-m
+x
+m
\\ No newline at end of file
";
        assert_eq!(unified_diff(base, new, "references/x.md"), expected);
        assert_eq!(count_changes(base, new), (3, 2));
        assert_eq!(unified_diff(base, base, "x"), "");
        assert_eq!(
            unified_diff("", "a\n", "\tx"),
            "--- \"a/\\011x\"\n+++ \"b/\\011x\"\n@@ -0,0 +1 @@\n+a\n"
        );
        assert_eq!(unified_diff("a\n", "", "x"), "--- a/x\n+++ b/x\n@@ -1 +0,0 @@\n-a\n");
    }

    #[test]
    fn large_texts_compare_few_lines() {
        let lines = |word: &str| format!("same\n{}same\n", format!("{word}\nx\n").repeat(20_000));
        let (base, new) = (lines("a"), lines("b"));
        assert_eq!(count_changes(&base, &new), (39_999, 39_999));
        assert_eq!(
            crate::apply_diff(&base, &unified_diff(&base, &new, "x"), "x").unwrap().text,
            new
        );
        assert_eq!(count_changes(&base, &format!("{base}more\n")), (1, 0));
    }
}
