//! A question to the index and its answer.

use std::sync::Arc;

use crate::{EmbeddingSimilarity, FieldSet, Ranker};

/// A question to the index.
#[derive(Clone, Copy)]
pub struct SearchRequest<'a> {
    /// The task, in any words and of any length; the first 16 KiB are read.
    pub query: &'a str,
    /// What orders the hits.
    pub ranker: &'a Ranker,
    /// The most hits to return.
    pub limit: usize,
    /// Says by id whether a skill may be among the candidates. Asked for the best alone, so that it
    /// may cost something.
    pub admits: &'a dyn Fn(&str) -> bool,
    /// The nearness of meanings, where an embedding model is at hand.
    pub semantics: Option<&'a dyn EmbeddingSimilarity>,
}

impl<'a> SearchRequest<'a> {
    /// Asks for the ten best of all skills, by words alone.
    #[must_use]
    pub fn new(query: &'a str, ranker: &'a Ranker) -> Self {
        Self { query, ranker, limit: 10, admits: &|_| true, semantics: None }
    }
}

/// A skill that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchHit {
    /// The document's id.
    pub id: Arc<str>,
    /// How well it fits; comparable within one answer only.
    pub score: f64,
    /// The fields in which a term of the query occurs. None where only a section deep in the body
    /// or the meaning fits.
    pub fields: FieldSet,
}
