//! The table: a row of numbers for every piece of the vocabulary.

use std::borrow::Cow;
use std::fmt;

use crate::vocabulary::PieceVocabulary;
use crate::words::for_each_word;

/// The id of the table that is part of this crate. Another table is another id: vectors are kept
/// under it.
pub const STATIC_MINILM: &str = "static-minilm-128";

static VOCABULARY: &str = include_str!("../data/vocab.txt");
static ROWS: &[u8] = include_bytes!("../data/table.i8");
static SCALES: &[u8] = include_bytes!("../data/scale_sif.f32");

/// Why files do not make a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// There are no pieces, or more than can be numbered.
    #[error("a vocabulary of {bytes} bytes cannot be used")]
    Vocabulary {
        /// Its size.
        bytes: usize,
    },
    /// The vocabulary and the numbers were not made for each other.
    #[error("{pieces} pieces and {numbers} {what} do not fit each other")]
    Size {
        /// Pieces in the vocabulary.
        pieces: usize,
        /// What there are too many or too few of.
        what: &'static str,
        /// How many there are.
        numbers: usize,
    },
    /// A number is infinite or none.
    #[error("a number of the row of piece {piece} is not finite")]
    NotFinite {
        /// The piece, counted from zero.
        piece: usize,
    },
}

/// Word vectors and the vocabulary that leads to them.
pub struct VectorTable {
    vocabulary: PieceVocabulary,
    dimension: usize,
    rows: TableRows,
}

enum TableRows {
    /// One signed byte per number, and one factor per row as four little-endian bytes.
    Bytes {
        rows: Cow<'static, [u8]>,
        scales: Cow<'static, [u8]>,
    },
    Floats(Vec<f32>),
}

impl fmt::Debug for VectorTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pieces, dimension) = (self.vocabulary.len(), self.dimension);
        f.debug_struct("Table").field("pieces", &pieces).field("dimension", &dimension).finish()
    }
}

impl VectorTable {
    /// Makes the table that is part of this crate; its id is [`STATIC_MINILM`].
    #[must_use]
    pub fn static_minilm() -> Self {
        Self::parse(VOCABULARY.into(), ROWS.into(), SCALES.into())
            .expect("the files of this crate fit each other, as a test has seen")
    }

    /// Makes a table of three files: the vocabulary with one piece per line; for every piece a row
    /// of signed bytes; for every piece a factor, a little-endian `f32`.
    ///
    /// # Errors
    /// When the files do not fit each other.
    pub fn parse(
        vocabulary: Cow<'static, str>,
        rows: Cow<'static, [u8]>,
        scales: Cow<'static, [u8]>,
    ) -> Result<Self, TableError> {
        let (vocabulary, dimension) = sized(vocabulary, rows.len())?;
        let pieces = vocabulary.len();
        let (factors, rest) = scales.as_chunks();
        if factors.len() != pieces || !rest.is_empty() {
            let numbers = scales.len() / size_of::<f32>();
            return Err(TableError::Size { pieces, what: "factors", numbers });
        }
        let finite = |factor: &[u8; 4]| f32::from_le_bytes(*factor).is_finite();
        if let Some(piece) = factors.iter().position(|factor| !finite(factor)) {
            return Err(TableError::NotFinite { piece });
        }
        Ok(Self { vocabulary, dimension, rows: TableRows::Bytes { rows, scales } })
    }

    /// Makes a table of a vocabulary with one piece per line and, row after row, the numbers
    /// themselves.
    ///
    /// # Errors
    /// When the two do not fit each other, or a number is not finite.
    pub fn from_floats(vocabulary: String, rows: Vec<f32>) -> Result<Self, TableError> {
        let (vocabulary, dimension) = sized(vocabulary.into(), rows.len())?;
        if let Some(at) = rows.iter().position(|number| !number.is_finite()) {
            return Err(TableError::NotFinite { piece: at / dimension });
        }
        Ok(Self { vocabulary, dimension, rows: TableRows::Floats(rows) })
    }

    /// Components of every vector, at least one.
    #[must_use]
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Makes the vector of a text: of length one, or all zeros for a text of which the table knows
    /// nothing. Reads at most [`MOST_BYTES`](crate::MOST_BYTES) of it; the same text has the same
    /// vector, bit for bit.
    #[must_use]
    pub fn embed(&self, text: &str) -> Vec<f32> {
        let mut sum = vec![0.0; self.dimension];
        let mut pieces = Vec::new();
        for_each_word(text, |word| {
            self.vocabulary.append_pieces(word, &mut pieces);
            for piece in pieces.drain(..) {
                self.add(piece as usize, &mut sum);
            }
        });
        // As `f64`, because the squares of a row of large numbers would not fit.
        let squares: f64 = sum.iter().map(|number| f64::from(*number) * f64::from(*number)).sum();
        let length = squares.sqrt();
        if length > 0.0 && length.is_finite() {
            sum.iter_mut().for_each(|number| *number = (f64::from(*number) / length) as f32);
        } else {
            sum.fill(0.0);
        }
        sum
    }

    fn add(&self, piece: usize, sum: &mut [f32]) {
        let row = piece * self.dimension..(piece + 1) * self.dimension;
        match &self.rows {
            TableRows::Bytes { rows, scales } => {
                let factor = scales.as_chunks().0[piece];
                let factor = f32::from_le_bytes(factor);
                for (number, byte) in sum.iter_mut().zip(&rows[row]) {
                    *number += factor * f32::from(byte.cast_signed());
                }
            }
            TableRows::Floats(rows) => {
                for (number, part) in sum.iter_mut().zip(&rows[row]) {
                    *number += part;
                }
            }
        }
    }
}

fn sized(text: Cow<'static, str>, numbers: usize) -> Result<(PieceVocabulary, usize), TableError> {
    let bytes = text.len();
    let vocabulary = PieceVocabulary::new(text).filter(|vocabulary| vocabulary.len() > 0);
    let vocabulary = vocabulary.ok_or(TableError::Vocabulary { bytes })?;
    let pieces = vocabulary.len();
    let dimension = numbers / pieces;
    if dimension == 0 || dimension * pieces != numbers {
        return Err(TableError::Size { pieces, what: "numbers", numbers });
    }
    Ok((vocabulary, dimension))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sha2::{Digest as _, Sha256};

    use super::*;

    fn hash(bytes: &[u8]) -> String {
        Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Vectors are kept under the id, so another table needs another id.
    #[test]
    fn the_table_is_the_one_that_has_its_id() {
        assert_eq!(STATIC_MINILM, "static-minilm-128");
        let hashes = [VOCABULARY.as_bytes(), ROWS, SCALES].map(hash);
        assert_eq!(
            hashes,
            [
                "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
                "f0a582e433cafde6666b54d814721afb072425d76aac3d9657a29a7daac0f5fc",
                "dd6f6ff020a48dfc88dac1d388a46667bfbcef5a8adb3c31aaf67d42e2046fdb",
            ]
        );
        let shown = "Table { pieces: 30522, dimension: 128 }";
        assert_eq!(format!("{:?}", VectorTable::static_minilm()), shown);
    }

    /// The expected numbers were computed by other code, from the same files.
    #[test]
    fn vectors_are_those_that_the_table_defines() {
        let table = VectorTable::static_minilm();
        let cases: &[(&str, [f32; 6])] = &[
            (
                "Extract tables from PDF files",
                [0.212584, 0.193674, 0.113385, -0.042932, -0.02903, -0.072149],
            ),
            (
                "Crème brûlée unaffable 日本語!",
                [-0.526516, 0.126492, 0.168085, 0.02579, -0.040234, -0.069245],
            ),
            ("the", [-0.10378, 0.027675, -0.013837, 0.0, -0.002306, -0.050737]),
            ("🎉", [0.0; 6]),
        ];
        for (text, expected) in cases {
            let vector = table.embed(text);
            assert_eq!(vector.len(), 128);
            let some = [0, 1, 2, 3, 126, 127].map(|at: usize| vector[at]);
            let near = some.iter().zip(expected).all(|(a, b)| (a - b).abs() < 2e-6);
            assert!(near, "{text}: {some:?}");
            let length: f32 = vector.iter().map(|number| number * number).sum();
            let expected = if *text == "🎉" { 0.0 } else { 1.0 };
            assert!((length - expected).abs() < 1e-5, "{text}: {length}");
        }
    }

    #[test]
    fn bytes_are_signed_and_rows_are_weighed() {
        let scales = [0.5f32, 2.0].map(f32::to_le_bytes).concat();
        let rows = vec![6, 0xf8, 0, 4];
        let table = VectorTable::parse("a\n##b".into(), rows.into(), scales.into()).unwrap();
        // a is (3, -4), ##b is (0, 8).
        assert_eq!(table.embed("ab"), [0.6, 0.8]);
        assert_eq!(table.embed("A"), [0.6, -0.8]);
        assert_eq!(table.embed("b"), [0.0, 0.0]);
    }

    #[test]
    fn rows_of_floats_are_taken_as_they_are() {
        let table =
            VectorTable::from_floats("a\nb\n[UNK]\n".into(), vec![3.0, 0.0, 0.0, 4.0, 9.0, 9.0]);
        let table = table.unwrap();
        assert_eq!(table.dimension(), 2);
        assert_eq!(table.embed("a b what"), [0.6, 0.8]);
        let huge = VectorTable::from_floats("a".into(), vec![f32::MAX, 0.0]).unwrap();
        assert_eq!(huge.embed("a"), [1.0, 0.0]);
        // Their sum is infinite, and infinity has no direction.
        assert_eq!(huge.embed("a a"), [0.0, 0.0]);
    }

    #[test]
    fn files_that_do_not_fit_are_refused() {
        let parse = |text: &'static str, rows: usize, scales: Vec<u8>| {
            let rows = vec![0; rows];
            VectorTable::parse(text.into(), rows.into(), scales.into()).unwrap_err().to_string()
        };
        assert_eq!(parse("", 4, vec![]), "a vocabulary of 0 bytes cannot be used");
        assert_eq!(parse("a\nb", 0, vec![0; 8]), "2 pieces and 0 numbers do not fit each other");
        assert_eq!(parse("a\nb", 3, vec![0; 8]), "2 pieces and 3 numbers do not fit each other");
        assert_eq!(parse("a\nb", 4, vec![0; 7]), "2 pieces and 1 factors do not fit each other");
        let odd = [0.0, f32::NAN].map(f32::to_le_bytes).concat();
        assert_eq!(parse("a\nb", 4, odd), "a number of the row of piece 1 is not finite");
        let rows = vec![0.0, 0.0, 0.0, f32::INFINITY];
        let error = VectorTable::from_floats("a\nb".into(), rows).unwrap_err();
        assert_eq!(error, TableError::NotFinite { piece: 1 });
    }

    #[test]
    fn no_text_is_too_long() {
        let table = VectorTable::static_minilm();
        let long = "word \0🎉字".repeat(100_000);
        assert!(long.len() > 1 << 20);
        let read = &long[..long.floor_char_boundary(crate::MOST_BYTES)];
        assert_eq!(table.embed(&long), table.embed(read));
        assert_eq!(table.embed(&"x".repeat(1 << 20)), [0.0; 128]);
    }

    proptest! {
        #[test]
        fn every_text_has_one_vector_of_length_one_or_nothing(text in any::<String>()) {
            static TABLE: std::sync::LazyLock<VectorTable> = std::sync::LazyLock::new(VectorTable::static_minilm);
            let vector = TABLE.embed(&text);
            prop_assert_eq!(&vector, &TABLE.embed(&text));
            let length: f32 = vector.iter().map(|number| number * number).sum();
            prop_assert!(length == 0.0 || (length - 1.0).abs() < 1e-5, "{}", length);
        }
    }
}
