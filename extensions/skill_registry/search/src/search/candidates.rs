//! The first stage: BM25F over all documents.

use std::cmp::Ordering;

use super::ResolvedQuery;
use crate::SearchRequest;
use crate::index::GONE;

/// How many candidates the first stage gives.
const CANDIDATES: usize = 100;

/// How many more the nearness of meanings gives at most.
const NEAREST: usize = 20;

/// A document with its BM25F score: the sum of u times the saturated frequency over all fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScoredDocument {
    pub(super) slot: u32,
    pub(super) lex: f64,
    /// The document's place in the order of ids.
    place: u32,
}

/// Returns the candidates: the best by BM25F, in order; then the nearest by meaning.
pub(super) fn select_candidates(
    asked: &ResolvedQuery<'_>,
    request: &SearchRequest<'_>,
) -> Vec<ScoredDocument> {
    let (scores, mut found) = score_documents(asked);
    let mut best = top_admitted(&mut found, &|slot| (request.admits)(asked.state.id(slot)));
    let semantics = request.semantics.filter(|_| request.ranker.uses_cosines());
    for id in semantics.map(|it| it.nearest(NEAREST)).unwrap_or_default() {
        let Some(slot) = asked.state.slot(id) else { continue };
        if best.iter().all(|it| it.slot != slot) && (request.admits)(id) {
            best.push(ScoredDocument { slot, lex: scores[slot as usize], place: 0 });
        }
    }
    best
}

/// The scores of all documents by slot; and the living documents that have a term of the query, if
/// only behind the end of a field.
fn score_documents(asked: &ResolvedQuery<'_>) -> (Vec<f64>, Vec<ScoredDocument>) {
    let state = asked.state;
    let mut scores = vec![0.0; state.places.len()];
    // Documents that have a term in a section alone.
    let mut deep = Vec::new();
    for term in &asked.terms {
        let mut first = 0;
        for (segment, number) in state.segments.iter().zip(term.numbers) {
            if let Some(number) = number {
                for (slot, counts) in segment.occurrences(segment.postings(number)) {
                    let slot = first + slot;
                    if counts.is_empty() {
                        deep.push(slot);
                    } else {
                        scores[slot as usize] +=
                            term.weight * asked.tables.bm25f_score(slot, counts);
                    }
                }
            }
            first += segment.len() as u32;
        }
    }
    deep.sort_unstable();
    deep.dedup();
    deep.retain(|slot| scores[*slot as usize] == 0.0);
    let positive = scores.iter().enumerate().filter(|(_, score)| **score > 0.0);
    let found = positive.map(|(slot, _)| slot as u32).chain(deep).filter_map(|slot| {
        let place = state.places[slot as usize];
        (place != GONE).then(|| ScoredDocument { slot, lex: scores[slot as usize], place })
    });
    let found = found.collect();
    (scores, found)
}

/// The best admitted documents, best first. Whether one is admitted is asked from the best on, until
/// there are enough.
fn top_admitted(
    mut found: &mut [ScoredDocument],
    admits: &dyn Fn(u32) -> bool,
) -> Vec<ScoredDocument> {
    let mut best = Vec::with_capacity(CANDIDATES + NEAREST);
    let mut portion = CANDIDATES;
    while !found.is_empty() && best.len() < CANDIDATES {
        if portion < found.len() {
            found.select_nth_unstable_by(portion - 1, order);
        }
        let (next, rest) = found.split_at_mut(portion.min(found.len()));
        next.sort_unstable_by(order);
        let admitted = next.iter().filter(|it| admits(it.slot));
        best.extend(admitted.take(CANDIDATES - best.len()));
        found = rest;
        portion *= 2;
    }
    best
}

/// By score, then by id.
fn order(a: &ScoredDocument, b: &ScoredDocument) -> Ordering {
    b.lex.total_cmp(&a.lex).then(a.place.cmp(&b.place))
}
