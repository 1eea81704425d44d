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
use crate::{Fields, Hit, Index, Measures, Model, Request};

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
    pub(crate) slot: u32,
    pub(crate) measures: Measures,
    /// For each term of the query how often the fields have it.
    pub(crate) counts: Vec<Counts>,
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
    fn candidates(&self, request: &Request<'_>) -> Vec<Candidate> {
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
        let asked = Asked::new(&self.state, request);
        let candidates = asked.candidates(request);
        let best = ranked(model(request), &candidates).into_iter().take(request.limit);
        let hit = |(candidate, _, score): (&Candidate, _, f64)| Hit {
            id: self.state.id(candidate.slot).clone(),
            score,
            fields: candidate.fields(),
        };
        best.map(hit).collect()
    }

    /// Returns the same hits, at most `limit` of them, and how their scores came about.
    #[must_use]
    pub fn explain(&self, request: &Request<'_>, limit: usize) -> Explanation {
        let asked = Asked::new(&self.state, request);
        let candidates = asked.candidates(request);
        let model = model(request);
        let columns = model.columns();
        let best = ranked(model, &candidates).into_iter().take(limit);
        let explained = |(candidate, row, score): (&Candidate, Vec<f64>, f64)| ExplainedHit {
            id: self.state.id(candidate.slot).clone(),
            score,
            fields: candidate.fields(),
            matched: candidate.matched(&asked.query),
            contributions: contributions(model, &columns, &row),
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
            candidates: candidates.len(),
            hits,
        }
    }

    /// Returns the candidates of a request with their features.
    #[must_use]
    pub fn features(&self, request: &Request<'_>) -> Candidates {
        let candidates = Asked::new(&self.state, request).candidates(request);
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

impl Candidate {
    /// The fields in which a term of the query occurs.
    fn fields(&self) -> Fields {
        let mut fields = Fields::default();
        self.counts.iter().for_each(|counts| fields.extend(counts.fields()));
        fields
    }

    fn matched(&self, query: &Query) -> Vec<TermMatch> {
        let terms = query.terms.iter().zip(&self.counts);
        terms
            .filter(|(_, counts)| !counts.is_empty())
            .map(|(term, counts)| TermMatch { term: term.clone(), fields: counts.fields() })
            .collect()
    }
}

/// The model that a request's candidates are ordered by.
fn model<'a>(request: &Request<'a>) -> &'a Model {
    request.ranker.model(request.semantics.is_some())
}

/// The candidates with features and score, best first.
fn ranked<'a>(model: &Model, candidates: &'a [Candidate]) -> Vec<(&'a Candidate, Vec<f64>, f64)> {
    let scored = |candidate: &'a Candidate| {
        let row = model.row(&candidate.measures);
        let score = model.score(&row);
        (candidate, row, score)
    };
    let mut ranked: Vec<_> = candidates.iter().map(scored).collect();
    // The sort is stable: what scores the same stays in the candidates' order.
    ranked.sort_by(|(.., a), (.., b)| b.total_cmp(a));
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
