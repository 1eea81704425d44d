//! Applies the edits of findings.

use skill_format::{Value, find_fences, tree};

use crate::check::{CheckOptions, CheckReport, check_skill};
use crate::input::SkillInput;
use crate::rule::TextEdit;

/// How often a text is checked and mended before what is left is left.
const MOST_ROUNDS: usize = 8;

/// Applies edits to the text they were made for. Where two overlap, the one that starts first
/// wins, and of two that start together the first of the list; edits outside the text are left
/// out.
#[must_use]
pub fn apply_edits(text: &str, edits: &[TextEdit]) -> String {
    let mut sorted: Vec<&TextEdit> = edits.iter().collect();
    sorted.sort_by_key(|edit| edit.range.start);
    let mut mended = String::with_capacity(text.len());
    let mut done = 0;
    for edit in sorted {
        let range = &edit.range;
        let fits = range.start >= done && text.get(range.clone()).is_some();
        if fits {
            mended.push_str(&text[done..range.start]);
            mended.push_str(&edit.replacement);
            done = range.end;
        }
    }
    mended.push_str(&text[done..]);
    mended
}

/// A skill after its fixable findings were mended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixOutcome {
    /// The text of the file, without a byte order mark.
    pub text: String,
    /// How many edits were made.
    pub edits: usize,
    /// What is left to find.
    pub report: CheckReport,
}

/// Mends what can be mended, again and again until nothing fixable is found. The frontmatter never
/// changes its meaning: edits that would do that are not made.
///
/// Files that are not UTF-8 are left as they are.
#[must_use]
pub fn apply_fixes(input: &SkillInput<'_>, options: CheckOptions) -> FixOutcome {
    let mut report = check_skill(input, options);
    let Ok(decoded) = skill_format::decode_file(input.bytes) else {
        let text = String::from_utf8_lossy(input.bytes).into_owned();
        return FixOutcome { text, edits: 0, report };
    };
    let mut text = decoded.text.into_owned();
    let mut count = 0;
    for _ in 0..MOST_ROUNDS {
        let found = report.findings.iter().flat_map(|finding| finding.edits.clone());
        let edits: Vec<TextEdit> = found.collect();
        let mended = apply_edits(&text, &edits);
        if mended == text || !same_frontmatter(&text, &mended) {
            break;
        }
        count += edits.len();
        text = mended;
        report = check_skill(&SkillInput { bytes: text.as_bytes(), ..*input }, options);
    }
    FixOutcome { text, edits: count, report }
}

fn same_frontmatter(before: &str, after: &str) -> bool {
    let root = |text: &str| {
        let fences = find_fences(text)?;
        Some(tree::parse_frontmatter(&text[fences.yaml], fences.open_line + 1).root)
    };
    match (root(before), root(after)) {
        (Some(Value::Mapping(before)), Some(Value::Mapping(after))) => before.same_content(&after),
        (before, after) => before.is_none() && after.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(range: std::ops::Range<usize>, replacement: &str) -> TextEdit {
        TextEdit { range, replacement: replacement.to_owned() }
    }

    #[test]
    fn edits_are_applied_in_the_order_of_the_text() {
        let edits = [edit(4..5, "E"), edit(0..1, ""), edit(2..2, "+")];
        assert_eq!(apply_edits("abcdef", &edits), "b+cdEf");
        assert_eq!(apply_edits("abc", &[]), "abc");
    }

    #[test]
    fn the_first_of_overlapping_edits_wins() {
        assert_eq!(apply_edits("abcdef", &[edit(2..5, "X"), edit(1..3, "Y")]), "aYdef");
        assert_eq!(apply_edits("abc", &[edit(1..2, "X"), edit(1..3, "Y")]), "aXc");
        assert_eq!(apply_edits("ab", &[edit(2..2, "1"), edit(2..2, "2")]), "ab12");
    }

    #[test]
    fn edits_that_do_not_fit_are_left_out() {
        assert_eq!(
            apply_edits("a\u{E9}b", &[edit(2..3, ""), edit(9..9, "x"), edit(3..4, "B")]),
            "a\u{E9}B"
        );
    }
}
