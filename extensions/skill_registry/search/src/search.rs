//! The two stages of a search: candidates, then their order.

mod candidates;
mod measure;
mod pairs;
mod resolved_query;
mod sections;

use std::sync::Arc;

use crate::explain::{ExplainedHit, FeatureContribution, QueryTerm, RankingExplanation, TermMatch};
use crate::features::CandidateFeatures;
use crate::query::ParsedQuery;
use crate::segment::FieldCounts;
use crate::{Index, LinearModel, SearchHit, SearchRequest};
use measure::MeasuredCandidates;
use resolved_query::{MeasuredCandidate, ResolvedQuery, ResolvedTerm};

impl Index {
    /// Returns the documents that fit a request, best first; candidates with the same score keep the
    /// order of the first stage, then that of their ids.
    ///
    /// A document without any term of the query is found only by embedding similarity.
    #[must_use]
    pub fn search(&self, request: &SearchRequest<'_>) -> Vec<SearchHit> {
        let measured = measure_query(&ResolvedQuery::new(&self.state, request), request);
        let best =
            rank_candidates(select_model(request), &measured).into_iter().take(request.limit);
        let hit = |(candidate, score): (&MeasuredCandidate, f64)| SearchHit {
            id: self.state.id(candidate.slot).clone(),
            score,
            fields: measured.fields(candidate),
        };
        best.map(hit).collect()
    }

    /// Returns the same hits, at most `limit` of them, with the parts of their scores.
    #[must_use]
    pub fn explain(&self, request: &SearchRequest<'_>, limit: usize) -> RankingExplanation {
        let resolved = ResolvedQuery::new(&self.state, request);
        let measured = measure_query(&resolved, request);
        let model = select_model(request);
        let columns = model.columns();
        let best = rank_candidates(model, &measured).into_iter().take(limit);
        let explained = |(candidate, score): (&MeasuredCandidate, f64)| ExplainedHit {
            id: self.state.id(candidate.slot).clone(),
            score,
            fields: measured.fields(candidate),
            matched: match_terms(&resolved.query, measured.counts(candidate)),
            contributions: list_contributions(model, &columns, &model.row(&candidate.measures)),
        };
        let hits = best.map(explained).collect();
        let term = |(at, term): (usize, &ResolvedTerm)| QueryTerm {
            term: resolved.query.terms[at].clone(),
            count: resolved.query.counts[at] as usize,
            skills: term.frequency as usize,
            weight: term.weight,
        };
        RankingExplanation {
            ranker: request.ranker.name(),
            terms: resolved.terms.iter().enumerate().map(term).collect(),
            candidates: measured.candidates.len(),
            hits,
        }
    }

    /// Returns the candidates of a request with their features.
    #[must_use]
    pub fn collect_features(&self, request: &SearchRequest<'_>) -> CandidateFeatures {
        let MeasuredCandidates { candidates, .. } =
            measure_query(&ResolvedQuery::new(&self.state, request), request);
        let model = select_model(request);
        let ids = candidates.iter().map(|it| Arc::clone(self.state.id(it.slot)));
        CandidateFeatures {
            ids: ids.collect(),
            columns: model.columns(),
            rows: candidates.iter().map(|candidate| model.row(&candidate.measures)).collect(),
            lex: candidates.iter().map(|candidate| candidate.measures.lex).collect(),
        }
    }
}

/// Selects and measures the candidates of a query.
fn measure_query(resolved: &ResolvedQuery<'_>, request: &SearchRequest<'_>) -> MeasuredCandidates {
    let candidates = candidates::select_candidates(resolved, request);
    measure::measure_candidates(resolved, request, &candidates)
}

/// Returns the terms of the query that a candidate has, with their fields.
fn match_terms(query: &ParsedQuery, counts: impl Iterator<Item = FieldCounts>) -> Vec<TermMatch> {
    let found = query.terms.iter().zip(counts).filter(|(_, counts)| !counts.is_empty());
    found.map(|(term, counts)| TermMatch { term: term.clone(), fields: counts.fields() }).collect()
}

/// Returns the model that orders a request's candidates.
fn select_model<'a>(request: &SearchRequest<'a>) -> &'a LinearModel {
    request.ranker.model(request.semantics.is_some())
}

/// Returns the candidates with their scores, best first.
fn rank_candidates<'a>(
    model: &LinearModel,
    measured: &'a MeasuredCandidates,
) -> Vec<(&'a MeasuredCandidate, f64)> {
    let score = |candidate: &'a MeasuredCandidate| (candidate, model.score(&candidate.measures));
    let mut ranked: Vec<_> = measured.candidates.iter().map(score).collect();
    // The sort is stable: equal scores stay in the order of the candidates.
    ranked.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    ranked
}

/// Returns the part of each feature in a score.
fn list_contributions(
    model: &LinearModel,
    columns: &[String],
    row: &[f64],
) -> Vec<FeatureContribution> {
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
