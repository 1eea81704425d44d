//! Phrase search in English prose.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use aho_corasick::{AhoCorasick, MatchKind};

/// A word of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextWord<'a> {
    /// The word in lower case.
    pub(crate) text: &'a str,
    /// The offset of its start in the text.
    pub(crate) at: usize,
    /// Whether punctuation, code or a quotation mark separates it from the word before.
    pub(crate) apart: bool,
}

/// Splits a lower-case text into words; code in backticks is skipped.
pub(crate) fn split_words(lower: &str) -> impl Iterator<Item = TextWord<'_>> {
    let mut chars = lower.char_indices();
    let mut apart = false;
    let mut in_code = false;
    std::iter::from_fn(move || {
        let mut start = None;
        for (at, c) in chars.by_ref() {
            let in_word = !in_code && (c.is_alphanumeric() || matches!(c, '\'' | '\u{2019}' | '-'));
            if in_word {
                start = start.or(Some(at));
                continue;
            }
            let separates = !c.is_whitespace();
            in_code ^= c == '`';
            if let Some(first) = start {
                let word = TextWord { text: &lower[first..at], at: first, apart };
                apart = separates;
                return Some(word);
            }
            apart |= separates;
        }
        start.map(|first| TextWord { text: &lower[first..], at: first, apart })
    })
}

/// Collects the words of a lower-case text.
pub(crate) fn collect_words(lower: &str) -> Vec<TextWord<'_>> {
    // English words have about five letters and a blank, so that the list rarely grows.
    let mut list = Vec::with_capacity(lower.len() / 4);
    list.extend(split_words(lower));
    list
}

/// A set of phrases that are searched in one pass.
///
/// A phrase is words with one blank between them. A word may list alternatives, as in
/// `use|follow`; `*` is any word. Punctuation and code end a phrase.
#[derive(Debug)]
pub(crate) struct PhraseSet {
    by_first: HashMap<&'static str, Vec<usize>>,
    phrases: Vec<Vec<Vec<&'static str>>>,
    /// The lengths of the first words of phrases as bits, indexed by their first byte: a filter
    /// that rejects most words of a text.
    lengths: [u64; 256],
    /// The alternatives for the longest word of every phrase, and for the next longest. Long words
    /// are rare: a text without a match in both has no phrase and need not be split into words.
    prefilters: [AhoCorasick; 2],
}

impl PhraseSet {
    pub(crate) fn new(phrases: &[&'static str]) -> Self {
        let phrases: Vec<Vec<Vec<&str>>> = phrases
            .iter()
            .map(|phrase| phrase.split(' ').map(|word| word.split('|').collect()).collect())
            .collect();
        let mut by_first: HashMap<_, Vec<usize>> = HashMap::new();
        let mut lengths = [0; 256];
        for (index, phrase) in phrases.iter().enumerate() {
            for &first in phrase.first().into_iter().flatten() {
                by_first.entry(first).or_default().push(index);
                let (letter, length) = first_byte_and_length(first);
                lengths[letter] |= length;
            }
        }
        let prefilters = [0, 1].map(|nth| {
            let alternatives = phrases.iter().filter_map(|phrase| {
                let mut by_length: Vec<_> = phrase.iter().collect();
                by_length.sort_by_key(|any| any.iter().map(|word| Reverse(word.len())).max());
                // A phrase of one word is in both filters.
                by_length.get(nth).or(by_length.first()).copied()
            });
            build_matcher(alternatives.flatten().copied().collect::<BTreeSet<_>>())
        });
        Self { by_first, phrases, lengths, prefilters }
    }

    /// Returns `true` if a lower-case text may contain one of the phrases.
    pub(crate) fn may_be_in(&self, lower: &str) -> bool {
        self.prefilters.iter().all(|any| any.is_match(lower))
    }

    /// Returns the first phrase of the text, the longest of those that start there: the index of
    /// its first word and the number of its words.
    pub(crate) fn find(&self, words: &[TextWord<'_>]) -> Option<(usize, usize)> {
        (0..words.len()).find_map(|at| Some((at, self.longest_at(words, at)?)))
    }

    /// Returns the number of words of the longest phrase that starts at a word, if any.
    fn longest_at(&self, words: &[TextWord<'_>], at: usize) -> Option<usize> {
        let first = words[at].text;
        let (letter, length) = first_byte_and_length(first);
        if self.lengths[letter] & length == 0 {
            return None;
        }
        let candidates = self.by_first.get(first)?;
        let lengths = candidates.iter().filter_map(|&index| {
            let phrase = &self.phrases[index];
            let slice = words.get(at..at + phrase.len())?;
            // Punctuation before the first word does not matter, between words it does.
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

/// Returns the byte that a word starts with and its length as a bit; long words share one.
fn first_byte_and_length(word: &str) -> (usize, u64) {
    let letter = word.bytes().next().map_or(0, usize::from);
    (letter, 1 << word.len().min(63))
}

/// Builds a search for any of several short texts.
#[expect(clippy::expect_used, reason = "only gigabytes of patterns exceed the limits")]
pub(crate) fn build_matcher<T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T>) -> AhoCorasick {
    // Only leftmost matching can use the vectorized prefilter; callers need no other kind.
    let builder = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(texts);
    builder.expect("the texts are constants, few and short")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_separators() {
        let words = split_words("don't stop, re-run `the code` now");
        let seen: Vec<_> = words.map(|word| (word.text, word.at, word.apart)).collect();
        assert_eq!(
            seen,
            [("don't", 0, false), ("stop", 6, false), ("re-run", 12, true), ("now", 30, true)]
        );
    }

    #[test]
    fn longest_first_phrase_is_found() {
        let phrases = PhraseSet::new(&["use|take it", "use it when", "any * here"]);
        let find = |text: &str| {
            let found = phrases.find(&split_words(text).collect::<Vec<_>>());
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
