//! The table of word vectors: one row of numbers for every piece of the vocabulary.

use std::borrow::Cow;
use std::fmt;

use crate::vocabulary::PieceVocabulary;
use crate::words::for_each_word;

/// The id of [`VectorTable::static_minilm`]. Every other table requires another id, because vectors
/// are cached by it.
#[cfg(feature = "static-minilm")]
pub const STATIC_MINILM: &str = "static-minilm-128";

#[cfg(feature = "static-minilm")]
static VOCABULARY: &str = include_str!("../data/vocab.txt");
#[cfg(feature = "static-minilm")]
static ROWS: &[u8] = include_bytes!("../data/table.i8");
#[cfg(feature = "static-minilm")]
static SCALES: &[u8] = include_bytes!("../data/scale_sif.f32");

/// An error for files that are not a valid table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The vocabulary is empty or too large.
    #[error("vocabulary of {bytes} bytes is not valid")]
    Vocabulary {
        /// The size of the vocabulary.
        bytes: usize,
    },
    /// The sizes of the files do not match.
    #[error("{pieces} pieces do not match {numbers} {what}")]
    Size {
        /// The number of pieces in the vocabulary.
        pieces: usize,
        /// The kind of the counted numbers.
        what: &'static str,
        /// The count of these numbers.
        numbers: usize,
    },
    /// A number is infinite or NaN.
    #[error("row of piece {piece} has a number that is not finite")]
    NotFinite {
        /// The piece, counted from zero.
        piece: usize,
    },
}

/// A table of word vectors with its vocabulary.
pub struct VectorTable {
    vocabulary: PieceVocabulary,
    dimension: usize,
    rows: TableRows,
}

/// The rows of a table.
enum TableRows {
    /// One signed byte per number, and one little-endian `f32` factor per row.
    Bytes {
        rows: Cow<'static, [u8]>,
        scales: Cow<'static, [u8]>,
    },
    Floats(Vec<f32>),
}

impl fmt::Debug for VectorTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pieces, dimension) = (self.vocabulary.len(), self.dimension);
        f.debug_struct("VectorTable")
            .field("pieces", &pieces)
            .field("dimension", &dimension)
            .finish()
    }
}

impl VectorTable {
    /// Returns the table in this crate; its id is [`STATIC_MINILM`].
    #[cfg(feature = "static-minilm")]
    #[must_use]
    pub fn static_minilm() -> Self {
        Self::parse(VOCABULARY.into(), ROWS.into(), SCALES.into())
            .expect("the files of this crate fit each other, as a test has seen")
    }

    /// Creates a table from three files: the vocabulary with one piece per line, a row of signed
    /// bytes for every piece, and a factor (a little-endian `f32`) for every piece.
    ///
    /// # Errors
    /// Returns an error if the sizes of the files do not match or a factor is not finite.
    pub fn parse(
        vocabulary: Cow<'static, str>,
        rows: Cow<'static, [u8]>,
        scales: Cow<'static, [u8]>,
    ) -> Result<Self, TableError> {
        let (vocabulary, dimension) = parse_vocabulary(vocabulary, rows.len())?;
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

    /// Creates a table from a vocabulary with one piece per line and the numbers of all rows.
    ///
    /// # Errors
    /// Returns an error if the sizes do not match or a number is not finite.
    pub fn from_floats(vocabulary: String, rows: Vec<f32>) -> Result<Self, TableError> {
        let (vocabulary, dimension) = parse_vocabulary(vocabulary.into(), rows.len())?;
        if let Some(at) = rows.iter().position(|number| !number.is_finite()) {
            return Err(TableError::NotFinite { piece: at / dimension });
        }
        Ok(Self { vocabulary, dimension, rows: TableRows::Floats(rows) })
    }

    /// Returns the number of components of every vector, at least one.
    #[must_use]
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Returns the vector of a text: of length one, or all zeros for a text without known pieces.
    /// Reads at most [`MAX_BYTES`](crate::MAX_BYTES) of it; the same text has the same vector, bit for
    /// bit.
    #[must_use]
    pub fn embed(&self, text: &str) -> Vec<f32> {
        let mut sum = vec![0.0; self.dimension];
        let mut pieces = Vec::new();
        for_each_word(text, |word| {
            self.vocabulary.append_pieces(word, &mut pieces);
            for piece in pieces.drain(..) {
                self.add_row(piece as usize, &mut sum);
            }
        });
        // In `f64`, because the squares of large numbers overflow `f32`.
        let squares: f64 = sum.iter().map(|number| f64::from(*number) * f64::from(*number)).sum();
        let length = squares.sqrt();
        // An infinite sum has no direction; zeros make the text similar to no other.
        if length > 0.0 && length.is_finite() {
            sum.iter_mut().for_each(|number| *number = (f64::from(*number) / length) as f32);
        } else {
            sum.fill(0.0);
        }
        sum
    }

    fn add_row(&self, piece: usize, sum: &mut [f32]) {
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

fn parse_vocabulary(
    text: Cow<'static, str>,
    numbers: usize,
) -> Result<(PieceVocabulary, usize), TableError> {
    let bytes = text.len();
    let vocabulary = PieceVocabulary::new(text).filter(|vocabulary| vocabulary.len() > 0);
    // An empty vocabulary would divide by zero below.
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
    #[cfg(feature = "static-minilm")]
    use sha2::{Digest as _, Sha256};

    use super::*;

    fn small_table() -> VectorTable {
        let rows = (0..30).map(|number: u8| f32::from(number % 7) - 2.0).collect();
        VectorTable::from_floats("a\ne\n##a\n1\nword\n字".into(), rows).unwrap()
    }

    #[cfg(feature = "static-minilm")]
    fn hash(bytes: &[u8]) -> String {
        Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Vectors are cached by the id, so a changed table requires a new id.
    #[cfg(feature = "static-minilm")]
    #[test]
    fn table_id_matches_content() {
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
        let debug = "VectorTable { pieces: 30522, dimension: 128 }";
        assert_eq!(format!("{:?}", VectorTable::static_minilm()), debug);
    }

    /// The expected numbers were computed by other code from the same files.
    #[cfg(feature = "static-minilm")]
    #[test]
    fn vectors_match_reference() {
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
    fn rows_are_signed_and_scaled() {
        let scales = [0.5f32, 2.0].map(f32::to_le_bytes).concat();
        let rows = vec![6, 0xf8, 0, 4];
        let table = VectorTable::parse("a\n##b".into(), rows.into(), scales.into()).unwrap();
        // a is (3, -4), ##b is (0, 8).
        assert_eq!(table.embed("ab"), [0.6, 0.8]);
        assert_eq!(table.embed("A"), [0.6, -0.8]);
        assert_eq!(table.embed("b"), [0.0, 0.0]);
    }

    #[test]
    fn float_rows_are_unchanged() {
        let table =
            VectorTable::from_floats("a\nb\n[UNK]\n".into(), vec![3.0, 0.0, 0.0, 4.0, 9.0, 9.0]);
        let table = table.unwrap();
        assert_eq!(table.dimension(), 2);
        assert_eq!(table.embed("a b what"), [0.6, 0.8]);
        let huge = VectorTable::from_floats("a".into(), vec![f32::MAX, 0.0]).unwrap();
        assert_eq!(huge.embed("a"), [1.0, 0.0]);
        // The sum is infinite, and infinity has no direction.
        assert_eq!(huge.embed("a a"), [0.0, 0.0]);
    }

    #[test]
    fn mismatched_files_are_rejected() {
        let parse = |text: &'static str, rows: usize, scales: Vec<u8>| {
            let rows = vec![0; rows];
            VectorTable::parse(text.into(), rows.into(), scales.into()).unwrap_err().to_string()
        };
        assert_eq!(parse("", 4, vec![]), "vocabulary of 0 bytes is not valid");
        assert_eq!(parse("a\nb", 0, vec![0; 8]), "2 pieces do not match 0 numbers");
        assert_eq!(parse("a\nb", 3, vec![0; 8]), "2 pieces do not match 3 numbers");
        assert_eq!(parse("a\nb", 4, vec![0; 7]), "2 pieces do not match 1 factors");
        let odd = [0.0, f32::NAN].map(f32::to_le_bytes).concat();
        assert_eq!(parse("a\nb", 4, odd), "row of piece 1 has a number that is not finite");
        let rows = vec![0.0, 0.0, 0.0, f32::INFINITY];
        let error = VectorTable::from_floats("a\nb".into(), rows).unwrap_err();
        assert_eq!(error, TableError::NotFinite { piece: 1 });
    }

    #[test]
    fn long_text_is_truncated() {
        let table = small_table();
        let long = "word \0🎉字".repeat(100_000);
        assert!(long.len() > 1 << 20);
        let read = &long[..long.floor_char_boundary(crate::MAX_BYTES)];
        assert_eq!(table.embed(&long), table.embed(read));
        assert_eq!(table.embed(&"x".repeat(1 << 20)), [0.0; 5]);
    }

    proptest! {
        #[test]
        fn vector_has_length_one_or_zero(text in any::<String>()) {
            static TABLE: std::sync::LazyLock<VectorTable> = std::sync::LazyLock::new(small_table);
            let vector = TABLE.embed(&text);
            prop_assert_eq!(&vector, &TABLE.embed(&text));
            let length: f32 = vector.iter().map(|number| number * number).sum();
            prop_assert!(length == 0.0 || (length - 1.0).abs() < 1e-5, "{}", length);
        }
    }
}
