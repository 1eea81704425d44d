//! Finds phrases in English prose.

use std::collections::{BTreeSet, HashMap};

use aho_corasick::{AhoCorasick, MatchKind};

/// A word of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word<'a> {
    /// The word in lower case.
    pub(crate) text: &'a str,
    /// Where it starts in the text.
    pub(crate) at: usize,
    /// Whether punctuation, code or a quotation mark stands between it and the word before.
    pub(crate) apart: bool,
}

/// Splits a text that is in lower case into words; code in backticks is not one.
pub(crate) fn words(lower: &str) -> impl Iterator<Item = Word<'_>> {
    let mut chars = lower.char_indices();
    let mut apart = false;
    let mut in_code = false;
    std::iter::from_fn(move || {
        let mut start = None;
        for (at, c) in chars.by_ref() {
            let of_word = !in_code && (c.is_alphanumeric() || matches!(c, '\'' | '\u{2019}' | '-'));
            if of_word {
                start = start.or(Some(at));
                continue;
            }
            let parts = !c.is_whitespace();
            in_code ^= c == '`';
            if let Some(first) = start {
                let word = Word { text: &lower[first..at], at: first, apart };
                apart = parts;
                return Some(word);
            }
            apart |= parts;
        }
        start.map(|first| Word { text: &lower[first..], at: first, apart })
    })
}

/// A set of phrases that is searched for in one pass.
///
/// A phrase is words with one blank between them. A word may list alternatives, as in
/// `use|follow`; `*` is any word. Punctuation and code end a phrase.
#[derive(Debug)]
pub(crate) struct Phrases {
    by_first: HashMap<&'static str, Vec<usize>>,
    phrases: Vec<Vec<Vec<&'static str>>>,
    /// Of every phrase, the alternatives for one of its words: a text with none of them has no
    /// phrase, and that is known before it is split into words.
    telling: AhoCorasick,
}

impl Phrases {
    pub(crate) fn new(phrases: &[&'static str]) -> Self {
        let phrases: Vec<Vec<Vec<&str>>> = phrases
            .iter()
            .map(|phrase| phrase.split(' ').map(|word| word.split('|').collect()).collect())
            .collect();
        let mut by_first: HashMap<_, Vec<usize>> = HashMap::new();
        for (index, phrase) in phrases.iter().enumerate() {
            for &first in phrase.first().into_iter().flatten() {
                by_first.entry(first).or_default().push(index);
            }
        }
        let telling = phrases.iter().filter_map(|phrase| {
            // Long words are rare.
            phrase.iter().max_by_key(|any| any.iter().map(|word| word.len()).min())
        });
        let telling: BTreeSet<_> = telling.flatten().collect();
        let telling = any_of(telling);
        Self { by_first, phrases, telling }
    }

    /// Tells whether a text that is in lower case can have one of the phrases.
    pub(crate) fn may_be_in(&self, lower: &str) -> bool {
        self.telling.is_match(lower)
    }

    /// Returns the first phrase of the text, the longest if several start there: the index of its
    /// first word and the number of its words.
    pub(crate) fn find(&self, words: &[Word<'_>]) -> Option<(usize, usize)> {
        (0..words.len()).find_map(|at| Some((at, self.at(words, at)?)))
    }

    /// Returns the number of words of the longest phrase that starts at a word.
    fn at(&self, words: &[Word<'_>], at: usize) -> Option<usize> {
        let candidates = self.by_first.get(words[at].text)?;
        let lengths = candidates.iter().filter_map(|&index| {
            let phrase = &self.phrases[index];
            let slice = words.get(at..at + phrase.len())?;
            let joined = slice[1..].iter().all(|word| !word.apart);
            let same = slice
                .iter()
                .zip(phrase)
                .all(|(word, any)| any.contains(&"*") || any.contains(&word.text));
            (joined && same).then_some(phrase.len())
        });
        lengths.max()
    }
}

/// Returns a search that tells whether any of some short texts stands in another one.
#[expect(clippy::expect_used, reason = "only gigabytes of text are too much to search for")]
pub(crate) fn any_of<T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T>) -> AhoCorasick {
    // The other kinds of match, which nobody asks for here, cannot look at many bytes at a time.
    let builder = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(texts);
    builder.expect("the texts are constants, few and short")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_know_what_parts_them() {
        let words = words("don't stop, re-run `the code` now");
        let seen: Vec<_> = words.map(|word| (word.text, word.at, word.apart)).collect();
        assert_eq!(
            seen,
            [("don't", 0, false), ("stop", 6, false), ("re-run", 12, true), ("now", 30, true)]
        );
    }

    #[test]
    fn the_longest_of_the_first_phrases_is_found() {
        let phrases = Phrases::new(&["use|take it", "use it when", "any * here"]);
        let find = |text: &str| {
            let found = phrases.find(&words(text).collect::<Vec<_>>());
            assert!(found.is_none() || phrases.may_be_in(text), "{text}");
            found
        };
        assert!(!phrases.may_be_in("it was any thing"));
        assert_eq!(find("you use it when asked"), Some((1, 3)));
        assert_eq!(find("you take it when asked"), Some((1, 2)));
        assert_eq!(find("use, it"), None);
        assert_eq!(find("use `x` it"), None);
        assert_eq!(find("is any thing here"), Some((1, 3)));
        assert_eq!(find("use"), None);
        assert_eq!(find(""), None);
    }
}
