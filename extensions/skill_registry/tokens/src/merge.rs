//! Joins the bytes of a piece into tokens.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::vocabulary::TokenVocabulary;

/// No neighbour.
const NONE: usize = usize::MAX;

/// Joins pieces one after the other; keeps its memory between them.
#[derive(Debug, Default)]
pub(crate) struct BpeMerger {
    /// By the place of its first byte: a part of the piece, at first every byte.
    parts: Vec<MergePart>,
    /// What can be joined: the rank of the result, where it starts and where it ends. The lowest
    /// rank comes first, of equals the leftmost. Entries whose parts are gone stay until they come.
    pairs: BinaryHeap<Reverse<(u32, usize, usize)>>,
}

/// A part of a piece that has become one token so far.
#[derive(Clone, Copy, Debug)]
struct MergePart {
    /// Where it ends; its own start once it was joined to the part before it.
    end: usize,
    /// Where the part before it starts.
    before: usize,
}

impl BpeMerger {
    /// Counts the tokens of a piece.
    ///
    /// Joins the pair of neighbours whose result has the lowest rank until no result is a token. Takes
    /// n log n steps for n bytes: a piece may be a megabyte of letters.
    pub(crate) fn count(&mut self, vocabulary: &TokenVocabulary, piece: &[u8]) -> u32 {
        self.parts.clear();
        self.parts.extend(
            (0..piece.len())
                .map(|at| MergePart { end: at + 1, before: at.checked_sub(1).unwrap_or(NONE) }),
        );
        self.pairs.clear();
        for at in 0..piece.len() {
            self.queue_merge(vocabulary, piece, at);
        }
        let mut count = piece.len();
        while let Some(Reverse((_, start, end))) = self.pairs.pop() {
            let MergePart { end: middle, before } = self.parts[start];
            // Either part may have been joined to something else since.
            if middle == start || middle >= end || self.parts[middle].end != end {
                continue;
            }
            self.parts[start].end = end;
            self.parts[middle].end = middle;
            if let Some(after) = self.parts.get_mut(end) {
                after.before = start;
            }
            count -= 1;
            self.queue_merge(vocabulary, piece, start);
            if before != NONE {
                self.queue_merge(vocabulary, piece, before);
            }
        }
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Notes the part that starts here and the one behind it, if together they are a token.
    fn queue_merge(&mut self, vocabulary: &TokenVocabulary, piece: &[u8], start: usize) {
        let Some(next) = self.parts.get(self.parts[start].end) else { return };
        if let Some(rank) = vocabulary.rank(&piece[start..next.end]) {
            self.pairs.push(Reverse((rank, start, next.end)));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::vocabulary::o200k;

    /// The definition, word for word: look for the best pair, join it, begin again.
    fn by_definition(piece: &[u8]) -> u32 {
        let mut parts: Vec<Vec<u8>> = piece.iter().map(|&byte| vec![byte]).collect();
        loop {
            let rank = |at: usize| o200k().rank(&[&*parts[at], &parts[at + 1]].concat());
            let pairs = (0..parts.len().saturating_sub(1)).filter_map(|at| Some((rank(at)?, at)));
            let Some((_, at)) = pairs.min() else { return u32::try_from(parts.len()).unwrap() };
            let second = parts.remove(at + 1);
            parts[at].extend(second);
        }
    }

    #[test]
    fn pairs_are_joined_in_the_order_of_the_vocabulary() {
        let mut joiner = BpeMerger::default();
        for piece in ["", "x", "skillhost", "aaaaaaaaaaaaaaaaaaaa", "=-=-=-=-=", "ſtraße", "𓀀𓀁𓀂"]
        {
            let expected = by_definition(piece.as_bytes());
            assert_eq!(joiner.count(o200k(), piece.as_bytes()), expected, "{piece}");
        }
    }

    #[test]
    fn a_long_piece_takes_no_square_of_its_length() {
        // With the definition's n² steps this would take hours.
        assert_eq!(BpeMerger::default().count(o200k(), &vec![b'a'; 1 << 20]), 131_072);
    }

    proptest! {
        #[test]
        fn joining_is_what_the_definition_says(piece in "[a-c]{0,60}|[ -~]{0,40}|\\PC{0,20}") {
            let expected = by_definition(piece.as_bytes());
            prop_assert_eq!(BpeMerger::default().count(o200k(), piece.as_bytes()), expected);
        }
    }
}
