//! The explanation of a ranking.

use std::sync::Arc;

use serde::Serialize;

use crate::FieldSet;

/// The explanation of one search.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankingExplanation {
    /// The ranker's name.
    pub ranker: &'static str,
    /// The distinct terms of the query, in its order.
    pub terms: Vec<QueryTerm>,
    /// The number of candidates.
    pub candidates: usize,
    /// The best candidates, best first, as a search returns them.
    pub hits: Vec<ExplainedHit>,
}

/// A term of a query.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueryTerm {
    /// The term: a word's stem.
    pub term: String,
    /// The count of the term in the query.
    pub count: usize,
    /// The number of skills with the term in a field.
    pub skills: usize,
    /// The weight in the first stage: the square root of the count, times the rarity.
    pub weight: f64,
}

/// A hit with all parts of its score.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExplainedHit {
    /// The document's id.
    pub id: Arc<str>,
    /// The sum of the contributions.
    pub score: f64,
    /// The fields in which a term of the query occurs.
    pub fields: FieldSet,
    /// The terms of the query that the document has.
    pub matched: Vec<TermMatch>,
    /// The contribution of each feature, in the model's order.
    pub contributions: Vec<FeatureContribution>,
}

/// A term of the query in a document.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TermMatch {
    /// The term.
    pub term: String,
    /// The fields that have it.
    pub fields: FieldSet,
}

/// The contribution of a feature to a score.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FeatureContribution {
    /// The feature's name, in `sqrt(…)` for its square root.
    pub feature: String,
    /// The value for this document.
    pub value: f64,
    /// The weight in the model.
    pub weight: f64,
    /// The product of both.
    pub contribution: f64,
}
