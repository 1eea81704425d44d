//! What is measured of a candidate; features are computed of these.

/// The nearness of meanings, where an embedding model is at hand.
pub trait EmbeddingSimilarity {
    /// Returns the cosines of the query with a document; none where it has no vectors.
    fn cosines(&self, id: &str) -> Option<CosineScores>;

    /// Returns the documents that are nearest to the query by [`CosineScores::description`], nearest
    /// first.
    fn nearest(&self, limit: usize) -> Vec<&str>;
}

/// Cosines of the query's vector with those of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CosineScores {
    /// With that of name and description.
    pub description: f32,
    /// With that of name, description and headings.
    pub headings: f32,
    /// The highest with that of a section of the body.
    pub section: f32,
}

/// What is measured of a candidate. `u` is the weight of a query term: the square root of how often
/// the query has it, times its rarity `g`; every sum goes over distinct terms of the query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CandidateMeasures {
    /// BM25F: the sum of u times the saturated, weighted frequency over all fields.
    pub lex: f64,
    /// The highest `lex` of the admitted documents, at least 1e-9.
    pub max_lex: f64,
    /// The sum of u, plus 1e-6.
    pub mass: f64,
    /// The sum of g, plus 1e-6.
    pub distinct_mass: f64,
    /// The sum of u times the saturated frequency in the description.
    pub description: f64,
    /// The sum of u times the saturated frequency in the headings.
    pub headings: f64,
    /// The sum of g of the terms that any field has.
    pub covered: f64,
    /// The sum of g of the terms of the name that the query has.
    pub name_covered: f64,
    /// The sum of g of the terms of the name, at least 1e-6.
    pub name_mass: f64,
    /// Over the query's distinct pairs of neighbours: their mean g times ln(1 + how often the body
    /// has the pair).
    pub body_pairs: f64,
    /// The sum of the mean g of those pairs that the name, description or headings have.
    pub meta_pairs: f64,
    /// The three best sections, best first: the sum of u times the saturated frequency in it.
    pub sections: [f64; 3],
    /// The highest `lex / mass` of a sentence of the query.
    pub best_sentence: f64,
    /// The same of the first sentence.
    pub first_sentence: f64,
    /// The same of the sentence that fits worst.
    pub worst_sentence: f64,
    /// The number of distinct terms of the query.
    pub terms: f64,
    /// How many of them the description has.
    pub described: f64,
    /// `lex`, but every u times the square root of the share of the documents with the term that
    /// have it in name or description.
    pub told: f64,
    /// The sum of those weights, plus 1e-6.
    pub told_mass: f64,
    /// `lex`, but every u times the term's rarity among the first fifty candidates.
    pub local: f64,
    /// The sum of those weights, plus 1e-6.
    pub local_mass: f64,
    /// The cosines; zero without an embedding model.
    pub cosines: CosineScores,
    /// The place among the candidates by [`CosineScores::description`], from 0.
    pub cosine_rank: usize,
}
