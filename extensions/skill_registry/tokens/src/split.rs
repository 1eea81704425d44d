//! The splitting of a text into the pieces within which tokens are merged.

use std::sync::LazyLock;

use regex_automata::meta::Regex;
use regex_automata::{Anchored, Input};

/// The pattern of o200k_base: its alternatives in order, up to the one with a look-ahead.
///
/// Source: tiktoken, `tiktoken_ext/openai_public.py`. Its last two alternatives, `\s+(?!\S)|\s+`,
/// depend on the text after a run of blanks, which a regular expression cannot express. Here they
/// are three: blanks at the end of the text; blanks with one more after them, which is excluded
/// from the match afterwards; blanks.
const BEFORE_BLANKS: [&str; 6] = [
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r"\s*[\r\n]+",
    r"\s+$",
];
const BLANKS_AND_ONE_MORE: &str = r"\s+\s";
const BLANKS: &str = r"\s+";

/// The index of [`BLANKS_AND_ONE_MORE`] among the three compiled patterns.
const EXCLUDES_LAST: usize = 1;

#[expect(clippy::expect_used, reason = "the patterns are constants and every test compiles them")]
static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new_many(&[&*BEFORE_BLANKS.join("|"), BLANKS_AND_ONE_MORE, BLANKS])
        .expect("the patterns are regular expressions")
});

/// Returns the pieces of a text; joined they are the text.
pub(crate) fn pre_tokenize(text: &str) -> impl Iterator<Item = &str> {
    let mut at = 0;
    std::iter::from_fn(move || {
        // An anchored search at the last end leaves no gap between pieces.
        let input = Input::new(text).range(at..).anchored(Anchored::Yes);
        let found = PATTERN.find(input)?;
        let mut end = found.end();
        if found.pattern().as_usize() == EXCLUDES_LAST {
            end -= text[at..end].chars().next_back().map_or(0, char::len_utf8);
        }
        let piece = &text[at..end];
        at = end;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split_all(text: &str) -> Vec<&str> {
        pre_tokenize(text).collect()
    }

    #[test]
    fn words_numbers_and_signs_are_pieces() {
        assert_eq!(split_all("Don't PANIC"), ["Don't", " PANIC"]);
        assert_eq!(split_all("camelCase"), ["camel", "Case"]);
        assert_eq!(split_all("1234567"), ["123", "456", "7"]);
        assert_eq!(split_all("a // b/\n"), ["a", " //", " b", "/\n"]);
        assert_eq!(split_all("技能 é"), ["技能", " é"]);
        assert_eq!(split_all(""), Vec::<&str>::new());
    }

    #[test]
    fn last_blank_joins_next_word() {
        assert_eq!(split_all("a   b"), ["a", "  ", " b"]);
        assert_eq!(split_all("a b"), ["a", " b"]);
        assert_eq!(split_all("a   "), ["a", "   "]);
        assert_eq!(split_all("a  \n\n  b"), ["a", "  \n\n", " ", " b"]);
        assert_eq!(split_all("a\t\t1"), ["a", "\t", "\t", "1"]);
        assert_eq!(split_all("\u{2003}\u{2003}1"), ["\u{2003}", "\u{2003}", "1"]);
    }

    proptest! {
        #[test]
        fn pieces_join_to_text(text in "\\PC*|[ \t\r\na-zA-Z0-9'/]*") {
            prop_assert!(pre_tokenize(&text).all(|piece| !piece.is_empty()));
            prop_assert_eq!(pre_tokenize(&text).collect::<String>(), text);
        }
    }
}
