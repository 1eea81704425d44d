//! The differences within a line.

use similar::{ChangeTag, TextDiff};

/// The maximum length of a line for a comparison of words, in bytes.
const MAX_LINE: usize = 4 << 10;

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordSegment {
    /// The text of the part.
    pub text: String,
    /// `true` if the other line lacks it.
    pub changed: bool,
}

/// Splits an old and a new line into shared and changed segments, by the words of Unicode
/// (UAX #29). The segments of a line add up to the line; none is empty, and shared and changed ones
/// alternate. Lines of more than 4 KiB are one segment each.
#[must_use]
pub fn diff_words(old_line: &str, new_line: &str) -> (Vec<WordSegment>, Vec<WordSegment>) {
    let (mut old, mut new) = (Vec::new(), Vec::new());
    // The comparison takes quadratic time, and minified lines can be a megabyte long.
    if old_line.len().max(new_line.len()) > MAX_LINE {
        let changed = old_line != new_line;
        push_segment(&mut old, old_line, changed);
        push_segment(&mut new, new_line, changed);
        return (old, new);
    }
    for change in TextDiff::from_unicode_words(old_line, new_line).iter_all_changes() {
        match change.tag() {
            ChangeTag::Equal => {
                push_segment(&mut old, change.value(), false);
                push_segment(&mut new, change.value(), false);
            }
            ChangeTag::Delete => push_segment(&mut old, change.value(), true),
            ChangeTag::Insert => push_segment(&mut new, change.value(), true),
        }
    }
    (old, new)
}

fn push_segment(segments: &mut Vec<WordSegment>, text: &str, changed: bool) {
    match segments.last_mut() {
        Some(last) if last.changed == changed => last.text.push_str(text),
        _ if text.is_empty() => {}
        _ => segments.push(WordSegment { text: text.to_owned(), changed }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &str, new: &str, expected: [&str; 2]) {
        let marked = |segments: Vec<WordSegment>| {
            let mark = |segment: WordSegment| match segment.changed {
                true => format!("[{}]", segment.text),
                false => segment.text,
            };
            segments.into_iter().map(mark).collect::<String>()
        };
        let (old, new) = diff_words(old, new);
        assert_eq!([marked(old), marked(new)], expected);
    }

    #[test]
    fn changed_words_are_marked() {
        check(
            "use `bd list`",
            "use `bd ready` now",
            ["use `bd [list]`", "use `bd [ready]`[ now]"].map(|s| s),
        );
        check("same", "same", ["same", "same"]);
        check("", "new", ["", "[new]"]);
        check("gone", "", ["[gone]", ""]);
        check("le café noir", "le cafe\u{301} noir", ["le [café] noir", "le [cafe\u{301}] noir"]);
        check("a\tb", "a b", ["a[\t]b", "a[ ]b"]);
    }

    #[test]
    fn long_lines_are_one_segment() {
        let (old, new) = ("a ".repeat(4_000), "b ".repeat(4_000));
        check(&old, &new, [&format!("[{old}]"), &format!("[{new}]")]);
        check(&old, &old, [&old, &old]);
    }
}
