//! The measures of a candidate, from which features are computed.

/// The embedding similarity of a query to documents.
pub trait EmbeddingSimilarity {
    /// Returns the cosines of the query with a document; `None` if it has no vectors.
    fn cosines(&self, id: &str) -> Option<CosineScores>;

    /// Returns the documents nearest to the query by [`CosineScores::description`], nearest first.
    fn nearest(&self, limit: usize) -> Vec<&str>;
}

/// The cosines of the query's vector with those of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CosineScores {
    /// The cosine with name and description.
    pub description: f32,
    /// The cosine with name, description and headings.
    pub headings: f32,
    /// The highest cosine with a section of the body.
    pub section: f32,
}

/// The measures of a candidate. `u` is the weight of a query term: the square root of its count in
/// the query, times its rarity `g`; every sum is over the distinct terms of the query.
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
    /// The sum of g over the terms in any field.
    pub covered: f64,
    /// The sum of g over the terms of the name that are in the query.
    pub name_covered: f64,
    /// The sum of g over the terms of the name, at least 1e-6.
    pub name_mass: f64,
    /// The sum over the query's distinct pairs of their mean g times ln(1 + count in the body).
    pub body_pairs: f64,
    /// The sum of the mean g of the pairs in name, description or headings.
    pub meta_pairs: f64,
    /// The scores of the three best sections, best first: the sums of u times saturated frequency.
    pub sections: [f64; 3],
    /// The highest `lex / mass` of a sentence of the query.
    pub best_sentence: f64,
    /// The `lex / mass` of the first sentence.
    pub first_sentence: f64,
    /// The lowest `lex / mass` of a sentence of the query.
    pub worst_sentence: f64,
    /// The number of distinct terms of the query.
    pub terms: f64,
    /// The number of those terms in the description.
    pub described: f64,
    /// `lex` with every u multiplied by the square root of the share of the documents with the term
    /// that have it in name or description.
    pub summary_weighted: f64,
    /// The sum of those weights, plus 1e-6.
    pub summary_mass: f64,
    /// `lex` with every u multiplied by the term's rarity among the first fifty candidates.
    pub local: f64,
    /// The sum of those weights, plus 1e-6.
    pub local_mass: f64,
    /// The cosines; zero without an embedding model.
    pub cosines: CosineScores,
    /// The rank among the candidates by [`CosineScores::description`], from 0.
    pub cosine_rank: usize,
}
