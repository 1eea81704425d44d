//! A vocabulary of WordPiece: which pieces there are, and how a word falls into them.

use std::borrow::Cow;

/// A longer word is unknown, as BERT has it; in characters.
const LONGEST_WORD: usize = 100;

/// What marks a piece that goes on with a word.
const GOES_ON: &[u8] = b"##";

/// No piece has this number: a vocabulary has fewer.
const FREE: u32 = u32::MAX;

/// Finds pieces by their text.
///
/// A hash table of its own: building the one of the standard library over 30,522 pieces takes most
/// of what a start may take, this one a fraction of it.
#[derive(Debug, Clone)]
pub(crate) struct PieceVocabulary {
    text: Cow<'static, str>,
    /// Where each piece begins in `text`; one more says where the last one ends.
    starts: Vec<u32>,
    /// The number of a piece, or [`FREE`]; a power of two of them, at most half of them taken.
    slots: Vec<u32>,
    /// Bytes of the longest piece.
    longest: usize,
    /// The number of what stands for an unknown word, where there is one.
    unknown: Option<u32>,
}

impl PieceVocabulary {
    /// Reads one piece per line; of equal ones the first counts. Nothing if the text is too long to
    /// be numbered.
    pub(crate) fn new(text: Cow<'static, str>) -> Option<Self> {
        let end = u32::try_from(text.len()).ok()?;
        // Counted first: everything after this is one pass without a second allocation.
        let most = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let mut starts = Vec::with_capacity(most + 1);
        let mut slots = vec![FREE; (most * 2).next_power_of_two()];
        let (mask, mut longest, mut at) = (slots.len() - 1, 0, 0);
        for (line, number) in text.as_bytes().split_inclusive(|byte| *byte == b'\n').zip(0..) {
            starts.push(at);
            at += line.len() as u32;
            let (goes_on, piece) = split(trim_line_end(line));
            longest = longest.max(piece.len());
            // A second piece of the same text lands behind the first, where nobody looks for it.
            let mut slot = hash(goes_on, piece) as usize & mask;
            while slots[slot] != FREE {
                slot = (slot + 1) & mask;
            }
            slots[slot] = number;
        }
        starts.push(end);
        let mut vocabulary = Self { text, starts, slots, longest, unknown: None };
        vocabulary.unknown = vocabulary.find(false, b"[UNK]");
        Some(vocabulary)
    }

    /// How many pieces there are.
    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn line(&self, number: u32) -> &[u8] {
        let at = number as usize;
        trim_line_end(&self.text.as_bytes()[self.starts[at] as usize..self.starts[at + 1] as usize])
    }

    fn find(&self, goes_on: bool, piece: &[u8]) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut slot = hash(goes_on, piece) as usize & mask;
        // Half of the slots are free, so this ends.
        loop {
            match self.slots[slot] {
                FREE => return None,
                number if split(self.line(number)) == (goes_on, piece) => return Some(number),
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    /// Adds the pieces of a word to `found`: always the longest one that is there. A word that
    /// does not come out even is unknown, and so no piece at all.
    pub(crate) fn append_pieces(&self, word: &str, found: &mut Vec<u32>) {
        let before = found.len();
        if word.len() > LONGEST_WORD && word.chars().count() > LONGEST_WORD {
            return;
        }
        let mut rest = word;
        while !rest.is_empty() {
            let goes_on = rest.len() < word.len();
            let ends = (1..=rest.len().min(self.longest)).rev();
            let mut ends = ends.filter(|end| rest.is_char_boundary(*end));
            let piece =
                ends.find_map(|end| Some((end, self.find(goes_on, &rest.as_bytes()[..end])?)));
            let Some((end, number)) = piece else {
                found.truncate(before);
                return;
            };
            if Some(number) != self.unknown {
                found.push(number);
            }
            rest = &rest[end..];
        }
    }
}

/// Takes the end off a line.
fn trim_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Takes the mark off a piece that goes on with a word.
fn split(line: &[u8]) -> (bool, &[u8]) {
    match line.strip_prefix(GOES_ON) {
        Some(piece) if !piece.is_empty() => (true, piece),
        _ => (false, line),
    }
}

/// FNV-1a, with the upper half folded in because only the lower bits are used. A vocabulary that
/// was made to collide slows down its owner alone.
fn hash(goes_on: bool, piece: &[u8]) -> u64 {
    let start = if goes_on { 0x84_22_23_25 } else { 0xcbf2_9ce4_8422_2325 };
    let hash = piece
        .iter()
        .fold(start, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(vocabulary: &str, word: &str) -> Vec<u32> {
        let mut found = Vec::new();
        let vocabulary = PieceVocabulary::new(vocabulary.to_owned().into()).unwrap();
        vocabulary.append_pieces(word, &mut found);
        found
    }

    #[test]
    fn the_longest_piece_is_taken_first() {
        let vocabulary = "[UNK]\nun\n##aff\n##able\n##a\nunaff\n##é\nu\n#\n##\n##n";
        let cases: &[(&str, &[u32])] = &[
            ("", &[]),
            ("un", &[1]),
            ("unaffable", &[5, 3]),
            ("unable", &[1, 3]),
            ("una", &[1, 4]),
            // Its pieces are there, but not at the start of a word.
            ("able", &[]),
            // What was found before the unknown rest is not kept.
            ("unx", &[]),
            ("unaé", &[1, 4, 6]),
            ("#", &[8]),
            ("##", &[9]),
            ("[UNK]", &[]),
        ];
        for (word, expected) in cases {
            assert_eq!(pieces(vocabulary, word), *expected, "{word}");
        }
    }

    #[test]
    fn a_word_of_more_than_a_hundred_characters_is_unknown() {
        assert_eq!(pieces("é\n##é", &"é".repeat(100)).len(), 100);
        assert_eq!(pieces("é\n##é", &"é".repeat(101)).len(), 0);
    }

    #[test]
    fn lines_may_end_as_on_windows_and_the_first_of_equals_counts() {
        assert_eq!(pieces("a\r\nb\r\na\r\nb\r\n", "b"), [1]);
        assert_eq!(PieceVocabulary::new("a\nb\n".into()).unwrap().len(), 2);
        assert_eq!(PieceVocabulary::new("".into()).unwrap().len(), 0);
        assert_eq!(pieces("", "a"), []);
    }
}
