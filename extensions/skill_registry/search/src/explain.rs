//! Why a skill was found.

use std::sync::Arc;

use serde::Serialize;

use crate::FieldSet;

/// How an answer came about.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankingExplanation {
    /// The ranker's name.
    pub ranker: &'static str,
    /// The query's distinct terms, in its order.
    pub terms: Vec<QueryTerm>,
    /// How many candidates there were.
    pub candidates: usize,
    /// The best candidates, best first: those that a search returns.
    pub hits: Vec<ExplainedHit>,
}

/// A term of a query.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueryTerm {
    /// The term: a word's stem.
    pub term: String,
    /// How often the query has it.
    pub count: usize,
    /// How many skills have it in a field.
    pub skills: usize,
    /// Its weight in the first stage: the square root of the count, times its rarity.
    pub weight: f64,
}

/// A hit with all that its score is made of.
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
    /// What each feature contributes, in the model's order.
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

/// What a feature contributes to a score.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FeatureContribution {
    /// The feature's name, in `sqrt(…)` for its square root.
    pub feature: String,
    /// Its value for this document.
    pub value: f64,
    /// Its weight in the model.
    pub weight: f64,
    /// Both multiplied.
    pub contribution: f64,
}
