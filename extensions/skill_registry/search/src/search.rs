//! The two stages: candidates, then their order.

mod candidates;
mod measure;
mod pairs;
mod sections;

use std::borrow::Cow;
use std::sync::Arc;

use crate::explain::{ExplainedHit, FeatureContribution, QueryTerm, RankingExplanation, TermMatch};
use crate::features::CandidateFeatures;
use crate::index::{IndexState, ScoringTables};
use crate::query::ParsedQuery;
use crate::segment::FieldCounts;
use crate::{CandidateMeasures, Index, LinearModel, SearchHit, SearchRequest};
use measure::MeasuredCandidates;

/// A query as the index sees it.
pub(crate) struct ResolvedQuery<'a> {
    pub(crate) state: &'a IndexState,
    pub(crate) tables: Cow<'a, ScoringTables>,
    pub(crate) query: ParsedQuery,
    pub(crate) terms: Vec<ResolvedTerm>,
}

/// A term of the query as the index sees it.
pub(crate) struct ResolvedTerm {
    /// Its number in each segment.
    pub(crate) numbers: [Option<u32>; 2],
    /// How many documents have it in a field.
    pub(crate) frequency: u32,
    /// g: how much it says that a document has it.
    pub(crate) rarity: f64,
    /// u: the square root of how often the query has it, times g.
    pub(crate) weight: f64,
}

/// A candidate and what is measured of it.
pub(crate) struct MeasuredCandidate {
    /// Its place among the candidates.
    number: usize,
    slot: u32,
    measures: CandidateMeasures,
}

impl<'a> ResolvedQuery<'a> {
    fn new(state: &'a IndexState, request: &SearchRequest<'_>) -> Self {
        let constants = request.ranker.constants();
        let tables = match state.tables.constants == *constants {
            true => Cow::Borrowed(&state.tables),
            false => Cow::Owned(ScoringTables::new(constants, &state.segments, &state.totals)),
        };
        let query = ParsedQuery::new(state.analysis, request.query);
        let term = |(term, count): (&String, &u32)| {
            let number = |segment: usize| state.segments[segment].vocabulary.find(term);
            let numbers = [number(0), number(1)];
            let frequency = (numbers.iter().zip(&state.frequencies))
                .find_map(|(number, frequencies)| Some(frequencies[(*number)? as usize]));
            let frequency = frequency.unwrap_or_default();
            let rarity = tables.rarity(frequency);
            ResolvedTerm { numbers, frequency, rarity, weight: f64::from(*count).sqrt() * rarity }
        };
        let terms = query.terms.iter().zip(&query.counts).map(term).collect();
        Self { state, tables, query, terms }
    }

    /// The candidates of the first stage, measured.
    fn measured(&self, request: &SearchRequest<'_>) -> MeasuredCandidates {
        measure::measure_candidates(self, request, &candidates::select_candidates(self, request))
    }
}

impl Index {
    /// Returns the documents that fit a request, best first; candidates of the same score in the
    /// order of the first stage, then of their ids.
    ///
    /// A document in which no term of the query occurs is not found, but by the nearness of
    /// meanings.
    #[must_use]
    pub fn search(&self, request: &SearchRequest<'_>) -> Vec<SearchHit> {
        let measured = ResolvedQuery::new(&self.state, request).measured(request);
        let best = ranked(model(request), &measured).into_iter().take(request.limit);
        let hit = |(candidate, score): (&MeasuredCandidate, f64)| SearchHit {
            id: self.state.id(candidate.slot).clone(),
            score,
            fields: measured.fields(candidate),
        };
        best.map(hit).collect()
    }

    /// Returns the same hits, at most `limit` of them, and how their scores came about.
    #[must_use]
    pub fn explain(&self, request: &SearchRequest<'_>, limit: usize) -> RankingExplanation {
        let asked = ResolvedQuery::new(&self.state, request);
        let measured = asked.measured(request);
        let model = model(request);
        let columns = model.columns();
        let best = ranked(model, &measured).into_iter().take(limit);
        let explained = |(candidate, score): (&MeasuredCandidate, f64)| ExplainedHit {
            id: self.state.id(candidate.slot).clone(),
            score,
            fields: measured.fields(candidate),
            matched: matched(&asked.query, measured.counts(candidate)),
            contributions: contributions(model, &columns, &model.row(&candidate.measures)),
        };
        let hits = best.map(explained).collect();
        let term = |(at, term): (usize, &ResolvedTerm)| QueryTerm {
            term: asked.query.terms[at].clone(),
            count: asked.query.counts[at] as usize,
            skills: term.frequency as usize,
            weight: term.weight,
        };
        RankingExplanation {
            ranker: request.ranker.name(),
            terms: asked.terms.iter().enumerate().map(term).collect(),
            candidates: measured.candidates.len(),
            hits,
        }
    }

    /// Returns the candidates of a request with their features.
    #[must_use]
    pub fn collect_features(&self, request: &SearchRequest<'_>) -> CandidateFeatures {
        let MeasuredCandidates { candidates, .. } =
            ResolvedQuery::new(&self.state, request).measured(request);
        let model = model(request);
        let ids = candidates.iter().map(|it| Arc::clone(self.state.id(it.slot)));
        CandidateFeatures {
            ids: ids.collect(),
            columns: model.columns(),
            rows: candidates.iter().map(|candidate| model.row(&candidate.measures)).collect(),
            lex: candidates.iter().map(|candidate| candidate.measures.lex).collect(),
        }
    }
}

fn matched(query: &ParsedQuery, counts: impl Iterator<Item = FieldCounts>) -> Vec<TermMatch> {
    let found = query.terms.iter().zip(counts).filter(|(_, counts)| !counts.is_empty());
    found.map(|(term, counts)| TermMatch { term: term.clone(), fields: counts.fields() }).collect()
}

/// The model that a request's candidates are ordered by.
fn model<'a>(request: &SearchRequest<'a>) -> &'a LinearModel {
    request.ranker.model(request.semantics.is_some())
}

/// The candidates with their scores, best first.
fn ranked<'a>(
    model: &LinearModel,
    measured: &'a MeasuredCandidates,
) -> Vec<(&'a MeasuredCandidate, f64)> {
    let score = |candidate: &'a MeasuredCandidate| (candidate, model.score(&candidate.measures));
    let mut ranked: Vec<_> = measured.candidates.iter().map(score).collect();
    // The sort is stable: what scores the same stays in the candidates' order.
    ranked.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    ranked
}

fn contributions(model: &LinearModel, columns: &[String], row: &[f64]) -> Vec<FeatureContribution> {
    let parts = columns.iter().zip(row).zip(model.weights());
    parts
        .map(|((feature, &value), &weight)| FeatureContribution {
            feature: feature.clone(),
            value,
            weight,
            contribution: weight * value,
        })
        .collect()
}
