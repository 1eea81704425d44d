//! Text embeddings from a table of word vectors.
//!
//! A text is split into WordPiece tokens like BERT's (uncased, accents stripped); its vector is the
//! weighted sum of the tokens' rows, normalized to length one. No model runs: the rows were computed
//! when the table was created. The larger the dot product of two vectors, the closer the meanings of
//! their texts.
//!
//! The table [`VectorTable::static_minilm`] is part of this crate (4 MB), distilled from the model
//! all-MiniLM-L6-v2 by `tools/static-minilm`. It is never copied: loading only indexes its
//! vocabulary, which takes about a millisecond.
//!
//! ```
//! let table = word_vectors::VectorTable::static_minilm();
//! let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
//! let query = table.embed("fix a bug in the database");
//! let (near, far) = (table.embed("SQL query debugging"), table.embed("Watercolor painting"));
//! assert!(dot(&query, &near) > dot(&query, &far));
//! ```

mod table;
mod vocabulary;
mod words;

pub use table::{STATIC_MINILM, TableError, VectorTable};
pub use words::MAX_BYTES;
