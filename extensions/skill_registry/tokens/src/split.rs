//! Cuts a text into the pieces within which tokens are joined.

use std::sync::LazyLock;

use regex_automata::meta::Regex;
use regex_automata::{Anchored, Input};

/// The pattern of o200k_base, alternatives in their order, up to the one that looks ahead.
///
/// Source: tiktoken, `tiktoken_ext/openai_public.py`. The two at its end, `\s+(?!\S)|\s+`, want to
/// know what follows a run of blanks, which a regular expression cannot say. They are three here:
/// blanks at the end of the text; blanks with one more behind them, which is then given back; blanks.
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

/// Which of the three patterns that are compiled is [`BLANKS_AND_ONE_MORE`].
const GIVES_BACK: usize = 1;

#[expect(clippy::expect_used, reason = "the patterns are constants and every test compiles them")]
static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new_many(&[&*BEFORE_BLANKS.join("|"), BLANKS_AND_ONE_MORE, BLANKS])
        .expect("the patterns are regular expressions")
});

/// Returns the pieces of a text; joined they are the text.
pub(crate) fn pre_tokenize(text: &str) -> impl Iterator<Item = &str> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let input = Input::new(text).range(at..).anchored(Anchored::Yes);
        let found = PATTERN.find(input)?;
        let mut end = found.end();
        if found.pattern().as_usize() == GIVES_BACK {
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

    fn of(text: &str) -> Vec<&str> {
        pre_tokenize(text).collect()
    }

    #[test]
    fn words_numbers_signs_and_blanks_are_pieces() {
        assert_eq!(of("Don't PANIC"), ["Don't", " PANIC"]);
        assert_eq!(of("camelCase"), ["camel", "Case"]);
        assert_eq!(of("1234567"), ["123", "456", "7"]);
        assert_eq!(of("a // b/\n"), ["a", " //", " b", "/\n"]);
        assert_eq!(of("技能 é"), ["技能", " é"]);
        assert_eq!(of(""), Vec::<&str>::new());
    }

    #[test]
    fn the_last_blank_goes_with_the_word_behind_it() {
        assert_eq!(of("a   b"), ["a", "  ", " b"]);
        assert_eq!(of("a b"), ["a", " b"]);
        assert_eq!(of("a   "), ["a", "   "]);
        assert_eq!(of("a  \n\n  b"), ["a", "  \n\n", " ", " b"]);
        assert_eq!(of("a\t\t1"), ["a", "\t", "\t", "1"]);
        assert_eq!(of("\u{2003}\u{2003}1"), ["\u{2003}", "\u{2003}", "1"]);
    }

    proptest! {
        #[test]
        fn no_byte_is_lost(text in "\\PC*|[ \t\r\na-zA-Z0-9'/]*") {
            prop_assert!(pre_tokenize(&text).all(|piece| !piece.is_empty()));
            prop_assert_eq!(pre_tokenize(&text).collect::<String>(), text);
        }
    }
}
