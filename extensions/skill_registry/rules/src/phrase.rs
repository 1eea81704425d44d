//! Finds phrases in English prose.

use std::collections::HashMap;

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
pub(crate) fn words(lower: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut start = None;
    let mut apart = false;
    let mut in_code = false;
    for (at, c) in lower.char_indices() {
        let of_word = !in_code && (c.is_alphanumeric() || matches!(c, '\'' | '\u{2019}' | '-'));
        match (start, of_word) {
            (None, true) => start = Some(at),
            (Some(first), false) => {
                words.push(Word { text: &lower[first..at], at: first, apart });
                (start, apart) = (None, false);
            }
            _ => {}
        }
        if c == '`' {
            in_code = !in_code;
        }
        apart |= !of_word && !c.is_whitespace();
    }
    if let Some(first) = start {
        words.push(Word { text: &lower[first..], at: first, apart });
    }
    words
}

/// A set of phrases that is searched for in one pass.
///
/// A phrase is words with one blank between them. A word may list alternatives, as in
/// `use|follow`; `*` is any word. Punctuation and code end a phrase.
#[derive(Debug)]
pub(crate) struct Phrases {
    by_first: HashMap<&'static str, Vec<usize>>,
    phrases: Vec<Vec<Vec<&'static str>>>,
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
        Self { by_first, phrases }
    }

    /// Returns the first phrase of the text, the longest if several start there: the index of its
    /// first word and the number of its words.
    pub(crate) fn find(&self, words: &[Word<'_>]) -> Option<(usize, usize)> {
        (0..words.len()).find_map(|at| Some((at, self.at(words, at)?)))
    }

    /// Returns the number of words of the longest phrase that starts at a word.
    pub(crate) fn at(&self, words: &[Word<'_>], at: usize) -> Option<usize> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_know_what_parts_them() {
        let words = words("don't stop, re-run `the code` now");
        let seen: Vec<_> = words.iter().map(|word| (word.text, word.at, word.apart)).collect();
        assert_eq!(
            seen,
            [("don't", 0, false), ("stop", 6, false), ("re-run", 12, true), ("now", 30, true)]
        );
    }

    #[test]
    fn the_longest_of_the_first_phrases_is_found() {
        let phrases = Phrases::new(&["use|take it", "use it when", "any * here"]);
        let find = |text: &str| phrases.find(&words(text));
        assert_eq!(find("you use it when asked"), Some((1, 3)));
        assert_eq!(find("you take it when asked"), Some((1, 2)));
        assert_eq!(find("use, it"), None);
        assert_eq!(find("use `x` it"), None);
        assert_eq!(find("is any thing here"), Some((1, 3)));
        assert_eq!(find("use"), None);
        assert_eq!(find(""), None);
    }
}
