//! The terms of a segment while it is built.

use std::collections::HashMap;

use super::TermDictionary;
use crate::TextAnalyzer;
use crate::analysis::term_for_word;

/// A mapping from words to the numbers of their terms.
#[derive(Debug)]
pub(super) struct TermInterner {
    analysis: TextAnalyzer,
    /// The number of each word's term; `None` for a stop word.
    words: HashMap<Box<str>, Option<u32>>,
    terms: HashMap<Box<str>, u32>,
}

impl TermInterner {
    pub(super) fn new(analysis: TextAnalyzer) -> Self {
        Self { analysis, words: HashMap::new(), terms: HashMap::new() }
    }

    /// Returns the number of terms.
    pub(super) fn len(&self) -> usize {
        self.terms.len()
    }

    /// Appends the numbers of a text's terms.
    pub(super) fn read(&mut self, text: &str, into: &mut Vec<u32>) {
        let Self { analysis, words, terms } = self;
        analysis.for_each_word(text, |word| {
            // Stemming is slow, so each distinct word is stemmed only once.
            let number = match words.get(word) {
                Some(number) => *number,
                None => {
                    let number = term_for_word(word).map(|term| match terms.get(&*term) {
                        Some(number) => *number,
                        None => {
                            let number = terms.len() as u32;
                            terms.insert(term.into(), number);
                            number
                        }
                    });
                    words.insert(word.into(), number);
                    number
                }
            };
            into.extend(number);
        });
    }

    /// Returns the sorted terms, and the new number for each old one.
    pub(super) fn into_sorted(self) -> (TermDictionary, Vec<u32>) {
        let mut terms: Vec<(Box<str>, u32)> = self.terms.into_iter().collect();
        terms.sort_unstable();
        let mut vocabulary = TermDictionary::default();
        let mut numbers = vec![0; terms.len()];
        for (term, before) in terms {
            numbers[before as usize] = vocabulary.push(&term);
        }
        vocabulary.shrink();
        (vocabulary, numbers)
    }
}
