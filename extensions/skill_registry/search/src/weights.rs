//! The parameters of the rankers. Those of the reference never change; those of the standard
//! ranker are the result of a fit.

use crate::field::FIELDS;

/// The constants of BM25F. Fields are in the order name, description, tags, headings, body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bm25fConstants {
    /// The saturation k1: small values make repeated terms count less.
    pub k1: f64,
    /// The exponent of a term's rarity.
    pub idf_power: f64,
    /// The weight of each field.
    pub weights: [f64; FIELDS],
    /// The length normalization b of each field, from 0 to 1.
    pub length: [f64; FIELDS],
}

impl Bm25fConstants {
    /// Returns the saturated frequency of a term.
    pub(crate) fn saturate(&self, frequency: f64) -> f64 {
        frequency * (self.k1 + 1.0) / (frequency + self.k1)
    }
}

/// The BM25F constants of the reference.
pub(crate) const REFERENCE_CONSTANTS: Bm25fConstants = Bm25fConstants {
    k1: 1.1,
    idf_power: 0.7,
    weights: [2.35, 1.73, 0.75, 0.19, 0.19],
    length: [0.31, 0.30, 0.23, 0.80, 0.80],
};

/// The weights of the reference for its features, then for their square roots.
pub(crate) const REFERENCE: [f64; 22] = [
    1.75428444787222,
    1.2794895567201436,
    -1.0876400887176136,
    1.1077650679337403,
    0.6965270460344244,
    -0.1611752824040278,
    -0.011696569703769257,
    0.9798987849918999,
    0.21157551254845178,
    0.951532527276304,
    0.7246678007086573,
    1.888855789434544,
    0.9905368195640749,
    -0.7133518843559082,
    1.3090994223191565,
    0.5214885648455091,
    1.4924452990304355,
    0.36057611585803057,
    1.1503229189049125,
    0.4528521224330018,
    1.3721369252672848,
    0.8121544657550358,
];

/// The BM25F constants of the standard ranker.
pub(crate) const STANDARD_CONSTANTS: Bm25fConstants = REFERENCE_CONSTANTS;

/// The weights of the standard ranker.
pub(crate) const STANDARD: [f64; 28] = [
    -0.2840, // lex_over_max
    -0.3270, // f_desc
    0.4218,  // f_head
    0.4156,  // cov
    0.2879,  // name_cov
    -4.2430, // bigram_body
    -0.1747, // bigram_meta
    0.9156,  // sec_max
    1.1071,  // sent_max
    -0.2869, // sent_first
    1.1039,  // words_desc
    -0.0376, // lex_told
    -1.4525, // lex_local
    -2.1310, // sent_min
    -3.0951, // sqrt(lex_over_max)
    0.4578,  // sqrt(f_desc)
    -2.8365, // sqrt(f_head)
    2.3852,  // sqrt(cov)
    1.3661,  // sqrt(name_cov)
    4.3144,  // sqrt(bigram_body)
    0.6316,  // sqrt(bigram_meta)
    4.1592,  // sqrt(sec_max)
    2.5277,  // sqrt(sent_max)
    2.4599,  // sqrt(sent_first)
    3.2625,  // sqrt(words_desc)
    5.0511,  // sqrt(lex_told)
    4.8822,  // sqrt(lex_local)
    2.6349,  // sqrt(sent_min)
];

/// The weights of the standard ranker with an embedding model.
pub(crate) const SEMANTIC: [f64; 36] = [
    -0.0914, // lex_over_max
    -0.7549, // f_desc
    0.3761,  // f_head
    0.3254,  // cov
    0.0586,  // name_cov
    -4.4259, // bigram_body
    -0.1848, // bigram_meta
    0.9609,  // sec_max
    1.3398,  // sent_max
    -0.1880, // sent_first
    2.1181,  // words_desc
    0.3514,  // lex_told
    -1.3473, // lex_local
    -2.2744, // sent_min
    2.2354,  // cos
    -1.8167, // cos_head
    -0.9152, // cos_sec
    -0.0172, // log_cos_rank
    -2.4561, // sqrt(lex_over_max)
    -0.3021, // sqrt(f_desc)
    -2.6618, // sqrt(f_head)
    1.7474,  // sqrt(cov)
    1.4928,  // sqrt(name_cov)
    4.3033,  // sqrt(bigram_body)
    0.6736,  // sqrt(bigram_meta)
    4.1467,  // sqrt(sec_max)
    1.7741,  // sqrt(sent_max)
    2.3229,  // sqrt(sent_first)
    2.0474,  // sqrt(words_desc)
    4.1564,  // sqrt(lex_told)
    4.9339,  // sqrt(lex_local)
    2.5201,  // sqrt(sent_min)
    3.2437,  // sqrt(cos)
    -1.0326, // sqrt(cos_head)
    3.2912,  // sqrt(cos_sec)
    -0.0090, // sqrt(log_cos_rank)
];
