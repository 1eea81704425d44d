//! The features of a candidate: numbers that a linear model weights.

use std::sync::Arc;

use crate::CandidateMeasures;

/// A number for one aspect of how well a candidate fits. A model has two weights for each: one for
/// the feature, one for its square root.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// The name in explanations.
    pub name: &'static str,
    /// The description of the feature.
    pub doc: &'static str,
    /// The function that computes it.
    pub value: fn(&CandidateMeasures) -> f64,
}

/// The only feature of the BM25F ranker.
pub(crate) static BM25F: [Feature; 1] =
    [Feature { name: "lex", doc: "the BM25F score over all fields", value: |it| it.lex }];

/// The features of the reference weights. They never change, because other rankers are compared
/// with `Ranker::reference`.
pub(crate) static REFERENCE: [Feature; 11] = [
    Feature {
        name: "lex_over_max",
        doc: "BM25F score, relative to the best one",
        value: |it| it.lex / it.max_lex,
    },
    Feature {
        name: "f_desc",
        doc: "query terms in the description, saturated",
        value: |it| it.description / it.mass,
    },
    Feature {
        name: "f_head",
        doc: "query terms in the headings, saturated",
        value: |it| it.headings / it.mass,
    },
    Feature {
        name: "cov",
        doc: "share of the query that occurs at all",
        value: |it| it.covered / it.distinct_mass,
    },
    Feature {
        name: "name_cov",
        doc: "share of the name that the query has",
        value: |it| it.name_covered / it.name_mass,
    },
    Feature {
        name: "bigram_body",
        doc: "neighbours in the query that are neighbours in the body",
        value: |it| it.body_pairs / it.mass,
    },
    Feature {
        name: "bigram_meta",
        doc: "neighbours in the query that are neighbours in name, description or headings",
        value: |it| it.meta_pairs,
    },
    Feature {
        name: "sec_max",
        doc: "query terms in the best section of the body",
        value: |it| it.sections[0] / it.mass,
    },
    Feature {
        name: "sec_top3",
        doc: "query terms in the three best sections of the body",
        value: |it| it.sections.iter().sum::<f64>() / it.mass,
    },
    Feature {
        name: "sent_max",
        doc: "BM25F score of the sentence of the query that fits best",
        value: |it| it.best_sentence,
    },
    Feature {
        name: "sent_first",
        doc: "BM25F score of the first sentence of the query",
        value: |it| it.first_sentence,
    },
];

/// The features of the standard ranker: those of the reference, except the sum of the three best
/// sections, which does not improve on the best one, and four more.
pub(crate) static STANDARD: [Feature; 14] = [
    REFERENCE[0],
    REFERENCE[1],
    REFERENCE[2],
    REFERENCE[3],
    REFERENCE[4],
    REFERENCE[5],
    REFERENCE[6],
    REFERENCE[7],
    // `sec_top3` is left out.
    REFERENCE[9],
    REFERENCE[10],
    Feature {
        name: "words_desc",
        doc: "share of the query's words that the description has, rare or not",
        value: |it| it.described / it.terms.max(1.0),
    },
    Feature {
        name: "lex_told",
        doc: "BM25F score, words that names and descriptions use counting more",
        value: |it| it.summary_weighted / it.summary_mass,
    },
    Feature {
        name: "lex_local",
        doc: "BM25F score, words that tell the candidates apart counting more",
        value: |it| it.local / it.local_mass,
    },
    Feature {
        name: "sent_min",
        doc: "BM25F score of the sentence of the query that fits worst",
        value: |it| it.worst_sentence,
    },
];

/// The further features of the standard ranker with an embedding model.
pub(crate) static SEMANTIC: [Feature; 4] = [
    Feature {
        name: "cos",
        doc: "cosine of the query with the description",
        value: |it| f64::from(it.cosines.description),
    },
    Feature {
        name: "cos_head",
        doc: "cosine of the query with description and headings",
        value: |it| f64::from(it.cosines.headings),
    },
    Feature {
        name: "cos_sec",
        doc: "cosine of the query with the nearest section of the body",
        value: |it| f64::from(it.cosines.section),
    },
    Feature {
        name: "log_cos_rank",
        doc: "logarithm of one plus the place by cosine among the candidates",
        value: |it| (it.cosine_rank as f64).ln_1p(),
    },
];

/// The candidates of a query with their features, for fitting weights.
#[derive(Clone, Debug, PartialEq)]
pub struct CandidateFeatures {
    /// The candidates' ids, best BM25F score first.
    pub ids: Vec<Arc<str>>,
    /// The names of the columns of `rows`: the features, then their square roots.
    pub columns: Vec<String>,
    /// A row for each candidate.
    pub rows: Vec<Vec<f64>>,
    /// The BM25F score of each candidate.
    pub lex: Vec<f64>,
}
