//! The byte pair merge of a piece into tokens.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::vocabulary::TokenVocabulary;

/// The marker for a part without a predecessor.
const NONE: usize = usize::MAX;

/// A merger of pieces that reuses its allocations.
#[derive(Debug, Default)]
pub(crate) struct BpeMerger {
    /// The parts of the piece by the offset of their first byte, initially every byte.
    parts: Vec<MergePart>,
    /// The possible merges: rank, start and end of the result. The lowest rank comes first, among
    /// equal ranks the leftmost. Outdated entries are skipped when they are popped.
    pairs: BinaryHeap<Reverse<(u32, usize, usize)>>,
}

/// A part of a piece that is one token so far.
#[derive(Clone, Copy, Debug)]
struct MergePart {
    /// The end of the part; its own start after a merge into the part before it.
    end: usize,
    /// The start of the part before it.
    before: usize,
}

impl BpeMerger {
    /// Counts the tokens of a piece.
    ///
    /// Merges the adjacent pair with the lowest rank until no result is a token. Takes n log n steps
    /// for n bytes, because a piece may be a megabyte of letters.
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
            // Either part may have been merged with another one since.
            if middle == start || middle >= end || self.parts[middle].end != end {
                continue;
            }
            self.parts[start].end = end;
            // An empty part marks queued merges with it as outdated.
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

    /// Queues the merge of the part at `start` with the next one if the result is a token.
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

    /// Merges by the definition: find the best pair, merge it, repeat.
    fn count_by_definition(piece: &[u8]) -> u32 {
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
    fn pairs_merge_in_vocabulary_order() {
        let mut merger = BpeMerger::default();
        for piece in ["", "x", "skillhost", "aaaaaaaaaaaaaaaaaaaa", "=-=-=-=-=", "ſtraße", "𓀀𓀁𓀂"]
        {
            let expected = count_by_definition(piece.as_bytes());
            assert_eq!(merger.count(o200k(), piece.as_bytes()), expected, "{piece}");
        }
    }

    #[test]
    fn long_piece_avoids_quadratic_time() {
        // With the definition's n² steps this would take hours.
        assert_eq!(BpeMerger::default().count(o200k(), &vec![b'a'; 1 << 20]), 131_072);
    }

    proptest! {
        #[test]
        fn merge_matches_definition(piece in "[a-c]{0,60}|[ -~]{0,40}|\\PC{0,20}") {
            let expected = count_by_definition(piece.as_bytes());
            prop_assert_eq!(BpeMerger::default().count(o200k(), piece.as_bytes()), expected);
        }
    }
}
