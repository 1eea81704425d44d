//! The two stages: candidates, then their order.

mod candidates;
mod measure;
mod pairs;
mod sections;

use std::borrow::Cow;
use std::sync::Arc;

use crate::explain::{Contribution, ExplainedHit, Explanation, QueryTerm, TermMatch};
use crate::features::Candidates;
use crate::index::{State, Tables};
use crate::query::Query;
use crate::segment::Counts;
use crate::{Hit, Index, Measures, Model, Request};
use measure::Measured;

/// A query as the index sees it.
pub(crate) struct Asked<'a> {
    pub(crate) state: &'a State,
    pub(crate) tables: Cow<'a, Tables>,
    pub(crate) query: Query,
    pub(crate) terms: Vec<Term>,
}

/// A term of the query as the index sees it.
pub(crate) struct Term {
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
pub(crate) struct Candidate {
    /// Its place among the candidates.
    number: usize,
    slot: u32,
    measures: Measures,
}

impl<'a> Asked<'a> {
    fn new(state: &'a State, request: &Request<'_>) -> Self {
        let constants = request.ranker.constants();
        let tables = match state.tables.constants == *constants {
            true => Cow::Borrowed(&state.tables),
            false => Cow::Owned(Tables::new(constants, &state.segments, &state.totals)),
        };
        let query = Query::new(state.analysis, request.query);
        let term = |(term, count): (&String, &u32)| {
            let number = |segment: usize| state.segments[segment].vocabulary.find(term);
            let numbers = [number(0), number(1)];
            let frequency = (numbers.iter().zip(&state.frequencies))
                .find_map(|(number, frequencies)| Some(frequencies[(*number)? as usize]));
            let frequency = frequency.unwrap_or_default();
            let rarity = tables.rarity(frequency);
            Term { numbers, frequency, rarity, weight: f64::from(*count).sqrt() * rarity }
        };
        let terms = query.terms.iter().zip(&query.counts).map(term).collect();
        Self { state, tables, query, terms }
    }

    /// The candidates of the first stage, measured.
    fn measured(&self, request: &Request<'_>) -> Measured {
        measure::measured(self, request, &candidates::candidates(self, request))
    }
}

impl Index {
    /// Returns the documents that fit a request, best first; candidates of the same score in the
    /// order of the first stage, then of their ids.
    ///
    /// A document in which no term of the query occurs is not found, but by the nearness of
    /// meanings.
    #[must_use]
    pub fn search(&self, request: &Request<'_>) -> Vec<Hit> {
        let measured = Asked::new(&self.state, request).measured(request);
        let best = ranked(model(request), &measured).into_iter().take(request.limit);
        let hit = |(candidate, score): (&Candidate, f64)| Hit {
            id: self.state.id(candidate.slot).clone(),
            score,
            fields: measured.fields(candidate),
        };
        best.map(hit).collect()
    }

    /// Returns the same hits, at most `limit` of them, and how their scores came about.
    #[must_use]
    pub fn explain(&self, request: &Request<'_>, limit: usize) -> Explanation {
        let asked = Asked::new(&self.state, request);
        let measured = asked.measured(request);
        let model = model(request);
        let columns = model.columns();
        let best = ranked(model, &measured).into_iter().take(limit);
        let explained = |(candidate, score): (&Candidate, f64)| ExplainedHit {
            id: self.state.id(candidate.slot).clone(),
            score,
            fields: measured.fields(candidate),
            matched: matched(&asked.query, measured.counts(candidate)),
            contributions: contributions(model, &columns, &model.row(&candidate.measures)),
        };
        let hits = best.map(explained).collect();
        let term = |(at, term): (usize, &Term)| QueryTerm {
            term: asked.query.terms[at].clone(),
            count: asked.query.counts[at] as usize,
            skills: term.frequency as usize,
            weight: term.weight,
        };
        Explanation {
            ranker: request.ranker.name(),
            terms: asked.terms.iter().enumerate().map(term).collect(),
            candidates: measured.candidates.len(),
            hits,
        }
    }

    /// Returns the candidates of a request with their features.
    #[must_use]
    pub fn features(&self, request: &Request<'_>) -> Candidates {
        let Measured { candidates, .. } = Asked::new(&self.state, request).measured(request);
        let model = model(request);
        let ids = candidates.iter().map(|it| Arc::clone(self.state.id(it.slot)));
        Candidates {
            ids: ids.collect(),
            columns: model.columns(),
            rows: candidates.iter().map(|candidate| model.row(&candidate.measures)).collect(),
            lex: candidates.iter().map(|candidate| candidate.measures.lex).collect(),
        }
    }
}

fn matched(query: &Query, counts: impl Iterator<Item = Counts>) -> Vec<TermMatch> {
    let found = query.terms.iter().zip(counts).filter(|(_, counts)| !counts.is_empty());
    found.map(|(term, counts)| TermMatch { term: term.clone(), fields: counts.fields() }).collect()
}

/// The model that a request's candidates are ordered by.
fn model<'a>(request: &Request<'a>) -> &'a Model {
    request.ranker.model(request.semantics.is_some())
}

/// The candidates with their scores, best first.
fn ranked<'a>(model: &Model, measured: &'a Measured) -> Vec<(&'a Candidate, f64)> {
    let score = |candidate: &'a Candidate| (candidate, model.score(&candidate.measures));
    let mut ranked: Vec<_> = measured.candidates.iter().map(score).collect();
    // The sort is stable: what scores the same stays in the candidates' order.
    ranked.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    ranked
}

fn contributions(model: &Model, columns: &[String], row: &[f64]) -> Vec<Contribution> {
    let parts = columns.iter().zip(row).zip(model.weights());
    parts
        .map(|((feature, &value), &weight)| Contribution {
            feature: feature.clone(),
            value,
            weight,
            contribution: weight * value,
        })
        .collect()
}
