//! A query resolved against an index, and its measured candidates.

use std::borrow::Cow;

use crate::index::{IndexState, ScoringTables};
use crate::query::ParsedQuery;
use crate::{CandidateMeasures, SearchRequest};

/// A query resolved against an index.
pub(super) struct ResolvedQuery<'a> {
    pub(super) state: &'a IndexState,
    pub(super) tables: Cow<'a, ScoringTables>,
    pub(super) query: ParsedQuery,
    pub(super) terms: Vec<ResolvedTerm>,
}

/// A query term resolved against an index.
pub(super) struct ResolvedTerm {
    /// The number of the term in each segment.
    pub(super) numbers: [Option<u32>; 2],
    /// The number of documents with the term in a field.
    pub(super) frequency: u32,
    /// The rarity g of the term.
    pub(super) rarity: f64,
    /// The weight u: the square root of the term's count in the query, times g.
    pub(super) weight: f64,
}

/// A candidate with its measures.
pub(super) struct MeasuredCandidate {
    /// The index among the candidates.
    pub(super) number: usize,
    pub(super) slot: u32,
    pub(super) measures: CandidateMeasures,
}

impl<'a> ResolvedQuery<'a> {
    pub(super) fn new(state: &'a IndexState, request: &SearchRequest<'_>) -> Self {
        let constants = request.ranker.constants();
        // The tables of the index fit only the standard constants.
        let tables = match state.tables.constants == *constants {
            true => Cow::Borrowed(&state.tables),
            false => Cow::Owned(ScoringTables::new(constants, &state.segments, &state.totals)),
        };
        let query = ParsedQuery::new(state.analysis, request.query);
        let term = |(term, count): (&String, &u32)| {
            let number = |segment: usize| state.segments[segment].vocabulary.find(term);
            let numbers = [number(0), number(1)];
            // Frequencies count both segments, so the first segment with the term is sufficient.
            let frequency = (numbers.iter().zip(&state.frequencies))
                .find_map(|(number, frequencies)| Some(frequencies[(*number)? as usize]));
            let frequency = frequency.unwrap_or_default();
            let rarity = tables.rarity(frequency);
            ResolvedTerm { numbers, frequency, rarity, weight: f64::from(*count).sqrt() * rarity }
        };
        let terms = query.terms.iter().zip(&query.counts).map(term).collect();
        Self { state, tables, query, terms }
    }
}
