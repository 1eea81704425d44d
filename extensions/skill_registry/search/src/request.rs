//! Search requests and hits.

use std::sync::Arc;

use crate::{EmbeddingSimilarity, FieldSet, Ranker};

/// A request to search an index.
#[derive(Clone, Copy)]
pub struct SearchRequest<'a> {
    /// The task, in any words and of any length; only the first 16 KiB are read.
    pub query: &'a str,
    /// The ranker that orders the hits.
    pub ranker: &'a Ranker,
    /// The maximum number of hits.
    pub limit: usize,
    /// A filter on the ids of candidates. It is called only for the best documents, so it may be slow.
    pub admits: &'a dyn Fn(&str) -> bool,
    /// The embedding similarity, if an embedding model is available.
    pub semantics: Option<&'a dyn EmbeddingSimilarity>,
}

impl<'a> SearchRequest<'a> {
    /// Creates a request for the ten best of all skills, without embeddings.
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
    /// The score; comparable only within one search.
    pub score: f64,
    /// The fields in which a term of the query occurs. Empty if only a section deep in the body or
    /// the embedding fits.
    pub fields: FieldSet,
}
