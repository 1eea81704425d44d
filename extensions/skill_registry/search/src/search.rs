//! The two stages: candidates, then their order.

use std::collections::HashSet;
use std::sync::Arc;

use crate::explain::{Contribution, ExplainedHit, Explanation, QueryTerm, TermMatch};
use crate::features::Candidates;
use crate::field::{BODY, DESCRIPTION, FIELDS, HEADINGS, NAME};
use crate::index::{Analysed, State};
use crate::query::Query;
use crate::{Constants, Fields, Hit, Index, Measures, Model, Request};

/// How many candidates the first stage gives.
const CANDIDATES: usize = 100;

/// How many candidates the nearness of meanings adds at most.
const NEAREST: usize = 20;

/// A candidate and what is measured of it.
pub(crate) struct Candidate {
    pub(crate) id: Arc<str>,
    pub(crate) measures: Measures,
    /// For each term of the query the fields that have it.
    pub(crate) matched: Vec<Fields>,
}

/// A query with its candidates.
pub(crate) struct Measured {
    pub(crate) terms: Vec<QueryTerm>,
    pub(crate) candidates: Vec<Candidate>,
}

impl Index {
    /// Returns the documents that fit a request, best first; candidates of the same score in the
    /// order of the first stage, then of their ids.
    #[must_use]
    pub fn search(&self, request: &Request<'_>) -> Vec<Hit> {
        let measured = self.measured(request);
        let model = model(request);
        ranked(model, &measured)
            .into_iter()
            .take(request.limit)
            .map(|(candidate, _, score)| Hit {
                id: candidate.id.clone(),
                score,
                fields: union(&candidate.matched),
            })
            .collect()
    }

    /// Returns the same hits, at most `limit` of them, and how their scores came about.
    #[must_use]
    pub fn explain(&self, request: &Request<'_>, limit: usize) -> Explanation {
        let measured = self.measured(request);
        let model = model(request);
        let columns = model.columns();
        let explained = |(candidate, row, score): (&Candidate, Vec<f64>, f64)| {
            let contributions = columns.iter().zip(&row).zip(model.weights());
            let terms = measured.terms.iter().zip(&candidate.matched);
            ExplainedHit {
                id: candidate.id.clone(),
                score,
                fields: union(&candidate.matched),
                matched: terms
                    .filter(|(_, fields)| !fields.is_empty())
                    .map(|(it, fields)| TermMatch { term: it.term.clone(), fields: *fields })
                    .collect(),
                contributions: contributions
                    .map(|((feature, &value), &weight)| Contribution {
                        feature: feature.clone(),
                        value,
                        weight,
                        contribution: weight * value,
                    })
                    .collect(),
            }
        };
        let hits = ranked(model, &measured).into_iter().take(limit).map(explained).collect();
        Explanation {
            ranker: request.ranker.name(),
            candidates: measured.candidates.len(),
            hits,
            terms: measured.terms,
        }
    }

    /// Returns the candidates of a request with their features.
    #[must_use]
    pub fn features(&self, request: &Request<'_>) -> Candidates {
        let measured = self.measured(request);
        let model = model(request);
        let candidates = &measured.candidates;
        Candidates {
            ids: candidates.iter().map(|candidate| candidate.id.clone()).collect(),
            columns: model.columns(),
            rows: candidates.iter().map(|candidate| model.row(&candidate.measures)).collect(),
            lex: candidates.iter().map(|candidate| candidate.measures.lex).collect(),
        }
    }
}

/// The model that a request's candidates are ordered by.
fn model<'a>(request: &Request<'a>) -> &'a Model {
    request.ranker.model(request.semantics.is_some())
}

fn union(matched: &[Fields]) -> Fields {
    let mut fields = Fields::default();
    matched.iter().for_each(|more| fields.extend(*more));
    fields
}

/// The candidates with features and score, best first.
fn ranked<'a>(model: &Model, measured: &'a Measured) -> Vec<(&'a Candidate, Vec<f64>, f64)> {
    let mut ranked: Vec<_> = measured
        .candidates
        .iter()
        .map(|candidate| {
            let row = model.row(&candidate.measures);
            let score = model.score(&row);
            (candidate, row, score)
        })
        .collect();
    // The sort is stable: what scores the same stays in the candidates' order.
    ranked.sort_by(|(.., a), (.., b)| b.total_cmp(a));
    ranked
}

impl Index {
    fn measured(&self, request: &Request<'_>) -> Measured {
        let state = &*self.state;
        let constants = request.ranker.constants();
        let query = Query::new(state.analysis, request.query);
        let rarity: Vec<f64> =
            query.terms.iter().map(|term| state.rarity(constants, term)).collect();
        let u = |number: usize, count: u32| f64::from(count).sqrt() * rarity[number];
        let weights: Vec<f64> =
            query.counts.iter().enumerate().map(|(number, &count)| u(number, count)).collect();
        let terms = query.terms.iter().enumerate().map(|(number, term)| QueryTerm {
            term: term.clone(),
            count: query.counts[number] as usize,
            skills: state.df.get(term).copied().unwrap_or_default(),
            weight: weights[number],
        });
        let terms: Vec<_> = terms.collect();
        let mut scored: Vec<(f64, &Arc<str>, &Analysed)> = Vec::new();
        for (id, document) in &state.documents {
            let all = document.fields.iter().chain(&document.sections);
            if !all.flatten().any(|term| query.terms.contains(term)) || !(request.admits)(id) {
                continue;
            }
            let combined = |(term, weight): (&String, &f64)| {
                weight * state.combined(constants, document, term)
            };
            scored.push((query.terms.iter().zip(&weights).map(combined).sum(), id, document));
        }
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        scored.truncate(CANDIDATES);
        let max_lex = scored.first().map_or(0.0, |best| best.0).max(1e-9);
        if let Some(semantics) = request.semantics.filter(|_| request.ranker.knows_cosines()) {
            let known: HashSet<&str> = scored.iter().map(|it| &**it.1).collect();
            for id in semantics.nearest(NEAREST) {
                if let Some((id, document)) = state.documents.get_key_value(id)
                    && !known.contains(&**id)
                    && (request.admits)(id)
                {
                    let combined = |(term, weight): (&String, &f64)| {
                        weight * state.combined(constants, document, term)
                    };
                    scored.push((
                        query.terms.iter().zip(&weights).map(combined).sum(),
                        id,
                        document,
                    ));
                }
            }
        }
        let mass = weights.iter().sum::<f64>() + 1e-6;
        let distinct_mass = rarity.iter().sum::<f64>() + 1e-6;
        let mut candidates: Vec<Candidate> = scored
            .iter()
            .map(|&(lex, id, document)| {
                let fields = &document.fields;
                let sum = |value: &dyn Fn(&String) -> f64| -> f64 {
                    query
                        .terms
                        .iter()
                        .zip(&weights)
                        .map(|(term, weight)| weight * value(term))
                        .sum()
                };
                let field = |field: usize| {
                    sum(&|term| constants.saturated(state.normed(constants, document, term, field)))
                };
                let matched: Vec<Fields> = query
                    .terms
                    .iter()
                    .map(|term| {
                        let mut found = Fields::default();
                        (0..FIELDS)
                            .filter(|&field| fields[field].contains(term))
                            .for_each(|field| found.add(field));
                        found
                    })
                    .collect();
                let covered = matched
                    .iter()
                    .zip(&rarity)
                    .filter(|(it, _)| !it.is_empty())
                    .map(|(_, g)| g)
                    .sum();
                let mut name_terms: Vec<&String> = Vec::new();
                for term in &fields[NAME] {
                    if !name_terms.contains(&term) {
                        name_terms.push(term);
                    }
                }
                let in_query = |term: &&&String| query.terms.contains(**term);
                let g = |term: &&String| state.rarity(constants, term);
                let name_covered = name_terms.iter().filter(in_query).map(g).sum();
                let name_mass = name_terms.iter().map(g).sum::<f64>().max(1e-6);
                let (mut body_pairs, mut meta_pairs) = (0.0, 0.0);
                for &(a, b) in &query.pairs {
                    let weight = (rarity[a] + rarity[b]) / 2.0;
                    let is =
                        |pair: &&[String]| pair[0] == query.terms[a] && pair[1] == query.terms[b];
                    body_pairs +=
                        weight * (fields[BODY].windows(2).filter(is).count() as f64).ln_1p();
                    let meta = [NAME, DESCRIPTION, HEADINGS];
                    if meta.iter().any(|&field| fields[field].windows(2).any(|pair| is(&pair))) {
                        meta_pairs += weight;
                    }
                }
                let mut sections: Vec<f64> = document
                    .sections
                    .iter()
                    .map(|section| {
                        let norm = 0.5 + 0.5 * section.len() as f64 / state.mean_section;
                        sum(&|term| constants.saturated(count(section, term) / norm))
                    })
                    .collect();
                sections.sort_by(|a, b| b.total_cmp(a));
                sections.resize(3, 0.0);
                let sentence = |terms: &Vec<(usize, u32)>| {
                    let mass =
                        terms.iter().map(|&(number, count)| u(number, count)).sum::<f64>() + 1e-6;
                    let lex = |&(number, count): &(usize, u32)| {
                        u(number, count) * state.combined(constants, document, &query.terms[number])
                    };
                    terms.iter().map(lex).sum::<f64>() / mass
                };
                let sentences: Vec<f64> = query.sentences.iter().map(sentence).collect();
                let cosines = request.semantics.and_then(|it| it.cosines(id)).unwrap_or_default();
                let measures = Measures {
                    lex,
                    max_lex,
                    mass,
                    distinct_mass,
                    description: field(DESCRIPTION),
                    headings: field(HEADINGS),
                    covered,
                    name_covered,
                    name_mass,
                    body_pairs,
                    meta_pairs,
                    sections: [sections[0], sections[1], sections[2]],
                    best_sentence: sentences.iter().copied().fold(0.0, f64::max),
                    first_sentence: sentences[0],
                    cosines,
                    cosine_rank: 0,
                };
                Candidate { id: id.clone(), measures, matched }
            })
            .collect();
        let mut by_cosine: Vec<usize> = (0..candidates.len()).collect();
        by_cosine.sort_by(|&a, &b| {
            let cosine = |at: usize| candidates[at].measures.cosines.description;
            cosine(b).total_cmp(&cosine(a))
        });
        for (rank, at) in by_cosine.into_iter().enumerate() {
            candidates[at].measures.cosine_rank = rank;
        }
        Measured { terms, candidates }
    }
}

fn count(terms: &[String], term: &str) -> f64 {
    terms.iter().filter(|it| *it == term).count() as f64
}

impl State {
    fn rarity(&self, constants: &Constants, term: &str) -> f64 {
        let df = self.df.get(term).copied().unwrap_or_default() as f64;
        let n = self.documents.len() as f64;
        (1.0 + (n - df + 0.5) / (df + 0.5)).ln().powf(constants.idf_power)
    }

    fn normed(&self, constants: &Constants, document: &Analysed, term: &str, field: usize) -> f64 {
        let b = constants.length[field];
        let norm = 1.0 - b + b * document.fields[field].len() as f64 / self.average[field];
        count(&document.fields[field], term) / norm
    }

    fn combined(&self, constants: &Constants, document: &Analysed, term: &str) -> f64 {
        let frequency = (0..FIELDS)
            .map(|field| constants.weights[field] * self.normed(constants, document, term, field))
            .sum();
        constants.saturated(frequency)
    }
}
