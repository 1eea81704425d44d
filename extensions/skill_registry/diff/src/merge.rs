//! Three-way merges.

use serde::Serialize;
use similar::DiffOp;

use crate::unified::{diff_lines, lines_with_endings};

/// Lines that both sides changed differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MergeConflict {
    /// The first line in our text, counted from 1.
    pub line: usize,
    /// The text of the base.
    pub base: String,
    /// The text of our side.
    pub ours: String,
    /// The text of their side.
    pub theirs: String,
}

/// A change of one side: lines of the base and the lines that replace them.
#[derive(Clone, Copy)]
struct MergeEdit {
    base: (usize, usize),
    side: (usize, usize),
}

/// One side of a merge.
struct MergeSide<'t> {
    lines: Vec<&'t str>,
    edits: Vec<MergeEdit>,
    /// The number of merged edits.
    next: usize,
    /// The distance of a line of the side from that of the base after them.
    shift: isize,
}

impl<'t> MergeSide<'t> {
    fn new(base: &[&str], text: &'t str) -> Self {
        let lines = lines_with_endings(text);
        let mut edits: Vec<MergeEdit> = Vec::new();
        for op in diff_lines(base, &lines) {
            if matches!(op, DiffOp::Equal { .. }) {
                continue;
            }
            let (old, new) = (op.old_range(), op.new_range());
            match edits.last_mut() {
                // `similar` reports a replacement next to an insertion as two operations.
                Some(last) if last.base.1 == old.start && last.side.1 == new.start => {
                    (last.base.1, last.side.1) = (old.end, new.end);
                }
                _ => {
                    edits
                        .push(MergeEdit { base: (old.start, old.end), side: (new.start, new.end) });
                }
            }
        }
        Self { lines, edits, next: 0, shift: 0 }
    }

    fn peek(&self) -> Option<MergeEdit> {
        self.edits.get(self.next).copied()
    }

    /// Consumes the next edit if it starts no later than a line of the base; returns its end there.
    fn take(&mut self, until: usize) -> Option<usize> {
        let edit = self.peek().filter(|edit| edit.base.0 <= until)?;
        self.next += 1;
        self.shift = edit.side.1 as isize - edit.base.1 as isize;
        Some(edit.base.1)
    }
}

/// Merges two changes of one text.
///
/// Changes are merged if an unchanged line is between them, or if both sides made the same change.
///
/// # Errors
/// Returns the lines that both sides changed differently, in order.
pub fn merge_texts(base: &str, ours: &str, theirs: &str) -> Result<String, Vec<MergeConflict>> {
    let base = lines_with_endings(base);
    let (mut ours, mut theirs) = (MergeSide::new(&base, ours), MergeSide::new(&base, theirs));
    let (mut merged, mut conflicts) = (String::new(), Vec::new());
    let mut at = 0;
    loop {
        let starts = [ours.peek(), theirs.peek()].map(|edit| edit.map(|edit| edit.base.0));
        let Some(start) = starts.into_iter().flatten().min() else { break };
        merged.extend(base[at..start].iter().copied());
        let befores = [ours.shift, theirs.shift];
        let (mut end, mut touched) = (start, [false; 2]);
        // Adjacent changes are one: without an unchanged line, their order is unknown.
        loop {
            let ends = [ours.take(end), theirs.take(end)];
            let Some(last) = ends.into_iter().flatten().max() else { break };
            touched = [touched[0] || ends[0].is_some(), touched[1] || ends[1].is_some()];
            end = end.max(last);
        }
        let text = |side: &MergeSide<'_>, before: isize| {
            let from = start.saturating_add_signed(before);
            let to = end.saturating_add_signed(side.shift);
            (from, side.lines[from..to].concat())
        };
        let ((line, our_text), (_, their_text)) =
            (text(&ours, befores[0]), text(&theirs, befores[1]));
        match touched {
            [true, false] => merged.push_str(&our_text),
            [false, true] => merged.push_str(&their_text),
            _ if our_text == their_text => merged.push_str(&our_text),
            _ => conflicts.push(MergeConflict {
                line: line + 1,
                base: base[start..end].concat(),
                ours: our_text,
                theirs: their_text,
            }),
        }
        at = end;
    }
    merged.extend(base[at..].iter().copied());
    if conflicts.is_empty() { Ok(merged) } else { Err(conflicts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Merges changes of `a b c d e`; the lines are given by their first letters.
    fn check(ours: &str, theirs: &str, expected: Result<&str, &[(usize, [&str; 3])]>) {
        let text = |letters: &str| letters.chars().map(|c| format!("{c}\n")).collect::<String>();
        let expected = expected.map(text).map_err(|conflicts| {
            let conflict = |(line, [base, ours, theirs]): &(usize, [&str; 3])| MergeConflict {
                line: *line,
                base: text(base),
                ours: text(ours),
                theirs: text(theirs),
            };
            conflicts.iter().map(conflict).collect::<Vec<_>>()
        });
        assert_eq!(
            merge_texts(&text("abcde"), &text(ours), &text(theirs)),
            expected,
            "{ours} {theirs}"
        );
    }

    #[test]
    fn separate_changes_merge() {
        check("Abcde", "abcdE", Ok("AbcdE"));
        check("abcdE", "Abcde", Ok("AbcdE"));
        check("xyabcde", "abce", Ok("xyabce"));
        check("bcde", "abcdef", Ok("bcdef"));
        check("Abcde", "AbcdE", Ok("AbcdE"));
        check("axcde", "axcde", Ok("axcde"));
        check("abcde", "xyz", Ok("xyz"));
        check("axbcye", "axbcye", Ok("axbcye"));
        check("Axbcde", "abcdxE", Ok("AxbcdxE"));
    }

    #[test]
    fn same_lines_conflict() {
        check("axcde", "aycde", Err(&[(2, ["b", "x", "y"])]));
        check("axcde", "acde", Err(&[(2, ["b", "x", ""])]));
        check("abxcde", "abycde", Err(&[(3, ["", "x", "y"])]));
        check("aXcde", "abYde", Err(&[(2, ["bc", "Xc", "bY"])]));
        check("xxabCde", "abcDe", Err(&[(5, ["cd", "Cd", "cD"])]));
        check("Xbcdx", "Ybcdy", Err(&[(1, ["a", "X", "Y"]), (5, ["e", "x", "y"])]));
        check("", "abCde", Err(&[(1, ["abcde", "", "abCde"])]));
    }

    #[test]
    fn removed_newline_joins_no_lines() {
        let conflict = MergeConflict {
            line: 1,
            base: "a\n".to_owned(),
            ours: "a".to_owned(),
            theirs: "a\nb\n".to_owned(),
        };
        assert_eq!(merge_texts("a\n", "a", "a\nb\n"), Err(vec![conflict]));
        assert_eq!(merge_texts("x\ny\na\n", "x\ny\na", "X\ny\na\n"), Ok("X\ny\na".to_owned()));
        assert_eq!(
            merge_texts("a\r\nb\r\nc\r\n", "A\r\nb\r\nc\r\n", "a\r\nb\r\nC\r\n"),
            Ok("A\r\nb\r\nC\r\n".to_owned())
        );
    }
}
