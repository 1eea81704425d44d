//! Turns a text into a vector by a table of word vectors.
//!
//! The text is cut into WordPiece tokens as BERT does it (uncased, accents stripped); its vector is
//! the sum of the tokens' rows, each with its weight, brought to length one. No model runs: what a
//! word means was put into its row when the table was made. Two texts are the closer in meaning, the
//! larger the dot product of their vectors.
//!
//! The table [`Table::static_minilm`] is part of this crate (4 MB), distilled from the model
//! all-MiniLM-L6-v2; `tools/static-minilm` makes it. It is never copied: to start means to index its
//! vocabulary, which takes about a millisecond.
//!
//! ```
//! let table = word_vectors::Table::static_minilm();
//! let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
//! let query = table.embed("fix a bug in the database");
//! let (near, far) = (table.embed("SQL query debugging"), table.embed("Watercolour painting"));
//! assert!(dot(&query, &near) > dot(&query, &far));
//! ```

mod table;
mod vocabulary;
mod words;

pub use table::{STATIC_MINILM, TableError, VectorTable};
pub use words::MOST_BYTES;
