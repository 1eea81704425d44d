//! A WordPiece vocabulary and the splitting of words into its pieces.

use std::borrow::Cow;

/// The maximum length of a word in characters; as in BERT, a longer one is unknown.
const MAX_WORD: usize = 100;

/// The prefix of a piece that continues a word.
const CONTINUATION: &[u8] = b"##";

/// The marker for a free slot; a vocabulary has fewer pieces.
const FREE: u32 = u32::MAX;

/// A map from texts to pieces.
///
/// It is a custom hash table: building that of the standard library for 30,522 pieces would take
/// lines of the time allowed for a start.
#[derive(Debug, Clone)]
pub(crate) struct PieceVocabulary {
    text: Cow<'static, str>,
    /// The start of each piece in `text`, then the end of the last one.
    starts: Vec<u32>,
    /// The piece numbers, or [`FREE`]; their count is a power of two, and at most half are used.
    slots: Vec<u32>,
    /// The length of the longest piece in bytes.
    longest: usize,
    /// The number of the piece for unknown words, if there is one.
    unknown: Option<u32>,
}

impl PieceVocabulary {
    /// Reads one piece per line; the first of equal pieces is used. Returns `None` if the text is
    /// longer than 4 GiB.
    pub(crate) fn new(text: Cow<'static, str>) -> Option<Self> {
        let end = u32::try_from(text.len()).ok()?;
        // Lines are counted first, so that the vectors never grow.
        let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let mut starts = Vec::with_capacity(lines + 1);
        let mut slots = vec![FREE; (lines * 2).next_power_of_two()];
        let (mask, mut longest, mut at) = (slots.len() - 1, 0, 0);
        for (line, number) in text.as_bytes().split_inclusive(|byte| *byte == b'\n').zip(0..) {
            starts.push(at);
            at += line.len() as u32;
            let (continues, piece) = split_prefix(trim_line_end(line));
            longest = longest.max(piece.len());
            // A second piece with the same text is stored after the first and never found.
            let mut slot = hash_piece(continues, piece) as usize & mask;
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

    /// Returns the number of pieces.
    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn line(&self, number: u32) -> &[u8] {
        let at = number as usize;
        trim_line_end(&self.text.as_bytes()[self.starts[at] as usize..self.starts[at + 1] as usize])
    }

    fn find(&self, continues: bool, piece: &[u8]) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut slot = hash_piece(continues, piece) as usize & mask;
        // Half of the slots are free, so the loop ends.
        loop {
            match self.slots[slot] {
                FREE => return None,
                number if split_prefix(self.line(number)) == (continues, piece) => {
                    return Some(number);
                }
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    /// Appends the pieces of a word to `found`, always the longest possible one. A word that cannot
    /// be split completely is unknown and has no pieces.
    pub(crate) fn append_pieces(&self, word: &str, found: &mut Vec<u32>) {
        let before = found.len();
        if word.len() > MAX_WORD && word.chars().count() > MAX_WORD {
            return;
        }
        let mut rest = word;
        while !rest.is_empty() {
            let continues = rest.len() < word.len();
            let ends = (1..=rest.len().min(self.longest)).rev();
            let mut ends = ends.filter(|end| rest.is_char_boundary(*end));
            let piece =
                ends.find_map(|end| Some((end, self.find(continues, &rest.as_bytes()[..end])?)));
            let Some((end, number)) = piece else {
                found.truncate(before);
                return;
            };
            // The row of unknown words does not depend on the meaning of a text.
            if Some(number) != self.unknown {
                found.push(number);
            }
            rest = &rest[end..];
        }
    }
}

/// Removes the ending of a line.
fn trim_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Removes the prefix of a piece that continues a word; returns whether it has one.
fn split_prefix(line: &[u8]) -> (bool, &[u8]) {
    match line.strip_prefix(CONTINUATION) {
        Some(piece) if !piece.is_empty() => (true, piece),
        _ => (false, line),
    }
}

/// Returns the FNV-1a hash, with the upper half folded in because only the lower bits are used. A
/// vocabulary with chosen collisions slows down only its owner.
fn hash_piece(continues: bool, piece: &[u8]) -> u64 {
    let start = if continues { 0x84_22_23_25 } else { 0xcbf2_9ce4_8422_2325 };
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
    fn longest_piece_is_first() {
        let vocabulary = "[UNK]\nun\n##aff\n##able\n##a\nunaff\n##é\nu\n#\n##\n##n";
        let cases: &[(&str, &[u32])] = &[
            ("", &[]),
            ("un", &[1]),
            ("unaffable", &[5, 3]),
            ("unable", &[1, 3]),
            ("una", &[1, 4]),
            // Its pieces exist, but not at the start of a word.
            ("able", &[]),
            // Pieces before the unknown rest are dropped.
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
    fn overlong_word_is_unknown() {
        assert_eq!(pieces("é\n##é", &"é".repeat(100)).len(), 100);
        assert_eq!(pieces("é\n##é", &"é".repeat(101)).len(), 0);
    }

    #[test]
    fn first_duplicate_line_is_used() {
        assert_eq!(pieces("a\r\nb\r\na\r\nb\r\n", "b"), [1]);
        assert_eq!(PieceVocabulary::new("a\nb\n".into()).unwrap().len(), 2);
        assert_eq!(PieceVocabulary::new("".into()).unwrap().len(), 0);
        assert_eq!(pieces("", "a"), []);
    }
}
