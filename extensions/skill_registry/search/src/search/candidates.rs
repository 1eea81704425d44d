//! The first stage: BM25F over all documents.

use std::cmp::Ordering;

use super::resolved_query::ResolvedQuery;
use crate::SearchRequest;
use crate::index::GONE;

/// The maximum number of candidates by BM25F.
const MAX_CANDIDATES: usize = 100;

/// The maximum number of further candidates by embedding similarity.
const MAX_NEAREST: usize = 20;

/// A document with its BM25F score: the sum of u times the saturated frequency over all fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScoredDocument {
    pub(super) slot: u32,
    pub(super) lex: f64,
    /// The document's index in the order of ids.
    place: u32,
}

/// Returns the candidates: the best by BM25F, in order; then the nearest by embedding.
pub(super) fn select_candidates(
    resolved: &ResolvedQuery<'_>,
    request: &SearchRequest<'_>,
) -> Vec<ScoredDocument> {
    let (scores, mut found) = score_documents(resolved);
    let mut best = top_admitted(&mut found, &|slot| (request.admits)(resolved.state.id(slot)));
    let semantics = request.semantics.filter(|_| request.ranker.uses_cosines());
    for id in semantics.map(|it| it.nearest(MAX_NEAREST)).unwrap_or_default() {
        let Some(slot) = resolved.state.slot(id) else { continue };
        // `admits` may be slow, so it is called last.
        if best.iter().all(|it| it.slot != slot) && (request.admits)(id) {
            best.push(ScoredDocument { slot, lex: scores[slot as usize], place: 0 });
        }
    }
    best
}

/// Returns the scores of all documents by slot, and the live documents with a term of the query,
/// even if only after the end of a field.
fn score_documents(resolved: &ResolvedQuery<'_>) -> (Vec<f64>, Vec<ScoredDocument>) {
    let state = resolved.state;
    let mut scores = vec![0.0; state.places.len()];
    // Documents with a term only in a section.
    let mut deep = Vec::new();
    for term in &resolved.terms {
        let mut first = 0;
        for (segment, number) in state.segments.iter().zip(term.numbers) {
            if let Some(number) = number {
                for (slot, counts) in segment.occurrences(segment.postings(number)) {
                    let slot = first + slot;
                    if counts.is_empty() {
                        deep.push(slot);
                    } else {
                        scores[slot as usize] +=
                            term.weight * resolved.tables.bm25f_score(slot, counts);
                    }
                }
            }
            first += segment.len() as u32;
        }
    }
    // A document can have several such terms, or other terms in its fields.
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

/// Returns the best admitted documents, best first. `admits` is called from the best document on,
/// until there are enough.
fn top_admitted(
    mut found: &mut [ScoredDocument],
    admits: &dyn Fn(u32) -> bool,
) -> Vec<ScoredDocument> {
    let mut best = Vec::with_capacity(MAX_CANDIDATES + MAX_NEAREST);
    let mut portion = MAX_CANDIDATES;
    while !found.is_empty() && best.len() < MAX_CANDIDATES {
        // A partial selection avoids sorting all documents when the first ones are admitted.
        if portion < found.len() {
            found.select_nth_unstable_by(portion - 1, compare_documents);
        }
        let (next, rest) = found.split_at_mut(portion.min(found.len()));
        next.sort_unstable_by(compare_documents);
        let admitted = next.iter().filter(|it| admits(it.slot));
        best.extend(admitted.take(MAX_CANDIDATES - best.len()));
        found = rest;
        // Doubling bounds the number of passes if few documents are admitted.
        portion *= 2;
    }
    best
}

/// Compares by score, then by id.
fn compare_documents(a: &ScoredDocument, b: &ScoredDocument) -> Ordering {
    b.lex.total_cmp(&a.lex).then(a.place.cmp(&b.place))
}
