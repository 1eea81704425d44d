//! The parser of queries: terms and sentences.

use std::collections::{HashMap, HashSet};

use crate::TextAnalyzer;
use crate::analysis::term_for_word;

/// The maximum length of a query in bytes; the rest is ignored.
const MAX_QUERY: usize = 16 * 1024;

/// The maximum number of distinct terms of a query.
const MAX_TERMS: usize = 512;

/// The maximum number of sentences of a query.
const MAX_SENTENCES: usize = 30;

/// A query split into terms, pairs and sentences.
pub(crate) struct ParsedQuery {
    /// The distinct terms, in the order of their first occurrence.
    pub(crate) terms: Vec<String>,
    /// The count of each term.
    pub(crate) counts: Vec<u32>,
    /// The distinct pairs of adjacent terms by number, in the order of their first occurrence.
    pub(crate) pairs: Vec<(usize, usize)>,
    /// The terms of each sentence by number, with their counts. There is at least one sentence.
    pub(crate) sentences: Vec<Vec<(usize, u32)>>,
}

impl ParsedQuery {
    pub(crate) fn new(analysis: TextAnalyzer, text: &str) -> Self {
        // The limit bounds the time of a search for hostile queries.
        let text = &text[..text.floor_char_boundary(MAX_QUERY)];
        let mut numbers = TermNumbers::default();
        let mut all = Vec::new();
        numbers.read(analysis, text, &mut all);
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        let mut seen = HashSet::new();
        for pair in all.windows(2) {
            if seen.insert((pair[0], pair[1])) {
                pairs.push((pair[0], pair[1]));
            }
        }
        let counted = count_terms(&all);
        let mut counts = vec![0; numbers.terms.len()];
        for &(number, count) in &counted {
            counts[number] = count;
        }
        let mut sentences: Vec<_> = split_sentences(text)
            .into_iter()
            .map(|sentence| {
                all.clear();
                numbers.read(analysis, sentence, &mut all);
                count_terms(&all)
            })
            // One term is not a sentence: `Hello!` must not become the first one.
            .filter(|sentence| sentence.len() >= 2)
            .take(MAX_SENTENCES)
            .collect();
        // Without real sentences, the complete query is the only one.
        if sentences.is_empty() {
            sentences.push(counted);
        }
        Self { terms: numbers.terms, counts, pairs, sentences }
    }
}

/// The numbers of the distinct terms of a query.
#[derive(Default)]
struct TermNumbers {
    terms: Vec<String>,
    by_term: HashMap<String, usize>,
    /// A cache, so that each word is stemmed once; `None` for stop words and terms over the limit.
    by_word: HashMap<String, Option<usize>>,
}

impl TermNumbers {
    /// Appends the numbers of a text's terms.
    fn read(&mut self, analysis: TextAnalyzer, text: &str, into: &mut Vec<usize>) {
        analysis.for_each_word(text, |word| {
            let number = match self.by_word.get(word) {
                Some(number) => *number,
                None => {
                    let number = self.number_for_word(word);
                    self.by_word.insert(word.to_owned(), number);
                    number
                }
            };
            into.extend(number);
        });
    }

    fn number_for_word(&mut self, word: &str) -> Option<usize> {
        let term = term_for_word(word)?;
        if let Some(number) = self.by_term.get(&*term) {
            return Some(*number);
        }
        let number = self.terms.len();
        (number < MAX_TERMS).then(|| {
            self.terms.push(term.clone().into_owned());
            self.by_term.insert(term.into_owned(), number);
            number
        })
    }
}

/// Counts terms, in the order of their first occurrence.
fn count_terms(terms: &[usize]) -> Vec<(usize, u32)> {
    let mut counts: Vec<(usize, u32)> = Vec::new();
    let mut places = HashMap::new();
    for &term in terms {
        let place = *places.entry(term).or_insert(counts.len());
        if place == counts.len() {
            counts.push((term, 0));
        }
        counts[place].1 += 1;
    }
    counts
}

/// Splits a query into sentences: at line breaks and at blanks after `.`, `!`, `?`, `;` or `:`,
/// without code fences.
fn split_sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for prose in outside_fences(text) {
        let mut start = 0;
        let mut last = '\n';
        for (at, c) in prose.char_indices() {
            let ends = matches!(last, '.' | '!' | '?' | ';' | ':') && is_blank(c);
            if c == '\n' || ends {
                found.push(&prose[start..at]);
                start = at;
            }
            last = c;
        }
        found.push(&prose[start..]);
    }
    found
}

/// Returns whether a character is white space or one of the four information separators of ASCII.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

/// Returns the parts of a text between code fences; an open fence extends to the end.
fn outside_fences(text: &str) -> impl Iterator<Item = &str> {
    text.split("```").step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_split_at_punctuation() {
        let rows: [(&str, &[&str]); 6] = [
            ("", &[""]),
            ("one two. three", &["one two.", " three"]),
            ("a.b c:d", &["a.b c:d"]),
            ("one!\u{a0}two\nthree", &["one!", "\u{a0}two", "\nthree"]),
            ("x ```code. y``` z", &["x ", " z"]),
            ("x ``` open. fence", &["x "]),
        ];
        for (text, expected) in rows {
            assert_eq!(split_sentences(text), expected, "{text:?}");
        }
    }

    #[test]
    fn query_numbers_terms_and_pairs() {
        let query =
            ParsedQuery::new(TextAnalyzer::Standard, "Deploy app deploy app now. Check logs; logs");
        assert_eq!(query.terms, ["deploy", "app", "check", "log"]);
        assert_eq!(query.counts, [2, 2, 1, 2]);
        assert_eq!(query.pairs, [(0, 1), (1, 0), (1, 2), (2, 3), (3, 3)]);
        assert_eq!(query.sentences, [vec![(0, 2), (1, 2)], vec![(2, 1), (3, 1)]]);
    }

    #[test]
    fn query_length_is_bounded() {
        let many: String = (0..2_000).map(|number| format!("t{number} ")).collect();
        let query = ParsedQuery::new(TextAnalyzer::Standard, &many);
        assert_eq!((query.terms.len(), query.pairs.len()), (512, 511));
        let long = format!("first {}é last", "x".repeat(MAX_QUERY - 7));
        assert_eq!(ParsedQuery::new(TextAnalyzer::Standard, &long).terms.len(), 2);
    }
}
