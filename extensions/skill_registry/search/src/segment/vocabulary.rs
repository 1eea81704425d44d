//! The term dictionary of a segment.

use std::cmp::Ordering;

/// The distinct terms of a segment, numbered in sorted order; their texts are stored contiguously.
#[derive(Debug, Default)]
pub(crate) struct TermDictionary {
    text: String,
    ends: Vec<u32>,
}

impl TermDictionary {
    /// Appends a term, which must sort after the last one; returns its number.
    pub(super) fn push(&mut self, term: &str) -> u32 {
        debug_assert!(self.is_empty() || self.get(self.len() - 1) < term);
        self.text.push_str(term);
        self.ends.push(self.text.len() as u32);
        self.ends.len() as u32 - 1
    }

    /// Returns the number of terms.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns a term.
    pub(crate) fn get(&self, number: usize) -> &str {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        &self.text[start..self.ends[number] as usize]
    }

    /// Returns the number of a term, or `None` if it is not in the dictionary.
    pub(crate) fn find(&self, term: &str) -> Option<u32> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle).cmp(term) {
                Ordering::Equal => return Some(middle as u32),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        None
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.text.capacity() + super::vec_bytes(&self.ends)
    }

    pub(super) fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_returns_known_terms() {
        let mut vocabulary = TermDictionary::default();
        assert_eq!(vocabulary.find("a"), None);
        let terms = ["a", "app", "b", "é"];
        assert_eq!(terms.map(|term| vocabulary.push(term)), [0, 1, 2, 3]);
        assert_eq!(terms.map(|term| vocabulary.find(term)), [Some(0), Some(1), Some(2), Some(3)]);
        assert_eq!(["", "aa", "zz", "ü"].map(|term| vocabulary.find(term)), [None; 4]);
        assert_eq!((vocabulary.get(1), vocabulary.len()), ("app", 4));
    }
}
