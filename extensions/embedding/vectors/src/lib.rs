//! Text embeddings from a table of word vectors.
//!
//! A text is split into WordPiece tokens like BERT's (uncased, accents stripped); its vector is the
//! weighted sum of the tokens' rows, normalized to length one. No model runs: the rows were computed
//! when the table was created. The larger the dot product of two vectors, the closer the meanings of
//! their texts.
//!
//! ```
//! let (vocabulary, rows) = ("sql\nquery\npaint", vec![0.9, 0.1, 0.8, 0.2, 0.0, 1.0]);
//! let table = word_vectors::VectorTable::from_floats(vocabulary.to_owned(), rows)?;
//! let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
//! let query = table.embed("SQL");
//! assert!(dot(&query, &table.embed("query")) > dot(&query, &table.embed("paint")));
//! # Ok::<(), word_vectors::TableError>(())
//! ```
//!
//! With the feature `static-minilm`, the crate includes a table of 4 MB, distilled from the model
//! all-MiniLM-L6-v2 by `tools/static-minilm`. It is not copied: loading only indexes its vocabulary,
//! which takes about a millisecond.

mod table;
mod vocabulary;
mod words;

#[cfg(feature = "static-minilm")]
pub use table::STATIC_MINILM;
pub use table::{TableError, VectorTable};
pub use words::MAX_BYTES;
