//! The measures of candidates for the second stage.

use super::candidates::ScoredDocument;
use super::pairs::find_pairs;
use super::resolved_query::{MeasuredCandidate, ResolvedQuery, ResolvedTerm};
use super::sections::SectionScores;
use crate::field::{DESCRIPTION, HEADINGS};
use crate::index::GONE;
use crate::segment::FieldCounts;
use crate::{CandidateMeasures, FieldSet, SearchRequest};

/// The number of candidates for the local rarity of a term.
const LOCAL_CANDIDATES: usize = 50;

/// The occurrence of a query term in a candidate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TermOccurrence {
    pub(super) counts: FieldCounts,
    /// The number of the posting; `None` if the candidate lacks the term.
    pub(super) posting: Option<u32>,
    /// The saturated frequency over all fields.
    combined: f64,
}

/// The candidates of a query with their measures.
pub(crate) struct MeasuredCandidates {
    /// The candidates in the order of the first stage.
    pub(super) candidates: Vec<MeasuredCandidate>,
    /// The occurrence of each query term in each candidate, by candidate.
    rows: Vec<TermOccurrence>,
    /// The number of terms of the query.
    width: usize,
}

impl MeasuredCandidates {
    /// Returns the field counts of a candidate for each term of the query.
    pub(super) fn counts(
        &self,
        candidate: &MeasuredCandidate,
    ) -> impl Iterator<Item = FieldCounts> + '_ {
        let row = &self.rows[candidate.number * self.width..(candidate.number + 1) * self.width];
        row.iter().map(|occurrence| occurrence.counts)
    }

    /// Returns the fields in which a term of the query occurs.
    pub(super) fn fields(&self, candidate: &MeasuredCandidate) -> FieldSet {
        let mut fields = FieldSet::default();
        self.counts(candidate).for_each(|counts| fields.extend(counts.fields()));
        fields
    }
}

/// Measures candidates.
pub(super) fn measure_candidates(
    resolved: &ResolvedQuery<'_>,
    request: &SearchRequest<'_>,
    candidates: &[ScoredDocument],
) -> MeasuredCandidates {
    // Without candidates or matches the features still divide by a positive number.
    let max_lex = candidates.first().map_or(0.0, |best| best.lex).max(1e-9);
    let common = CandidateMeasures {
        max_lex,
        mass: resolved.terms.iter().map(|term| term.weight).sum::<f64>() + 1e-6,
        distinct_mass: resolved.terms.iter().map(|term| term.rarity).sum::<f64>() + 1e-6,
        ..CandidateMeasures::default()
    };
    let sentences: Vec<QuerySentence> = (0..resolved.query.sentences.len())
        .map(|number| QuerySentence::new(resolved, &resolved.query.sentences[number]))
        .collect();
    let (rows, summary_counts) = find_occurrences(resolved, candidates);
    let term_weights = [summary_weights(resolved, &summary_counts), local_weights(resolved, &rows)];
    let common = CandidateMeasures {
        summary_mass: term_weights[0].iter().sum::<f64>() + 1e-6,
        local_mass: term_weights[1].iter().sum::<f64>() + 1e-6,
        terms: resolved.terms.len() as f64,
        ..common
    };
    let semantics = request.semantics.filter(|_| request.ranker.uses_cosines());
    let sections = score_sections(resolved, candidates, &rows);
    let width = resolved.terms.len();
    let mut measured: Vec<MeasuredCandidate> = candidates
        .iter()
        .zip(sections)
        .enumerate()
        .map(|(number, (scored, sections))| {
            let row = &rows[number * width..(number + 1) * width];
            let mut measures = CandidateMeasures { lex: scored.lex, sections, ..common.clone() };
            measure_terms(resolved, scored.slot, row, &mut measures);
            measure_weights(&term_weights, row, &mut measures);
            measure_sentences(&sentences, row, &mut measures);
            if let Some(semantics) = semantics {
                let id = resolved.state.id(scored.slot);
                measures.cosines = semantics.cosines(id).unwrap_or_default();
            }
            MeasuredCandidate { number, slot: scored.slot, measures }
        })
        .collect();
    if semantics.is_some() {
        rank_by_cosine(&mut measured);
    }
    MeasuredCandidates { candidates: measured, rows, width }
}

/// Returns the occurrence of each query term in each candidate, and for each term the number of
/// documents with it in the name or the description.
fn find_occurrences(
    resolved: &ResolvedQuery<'_>,
    candidates: &[ScoredDocument],
) -> (Vec<TermOccurrence>, Vec<u32>) {
    const NONE: u32 = u32::MAX;
    let width = resolved.terms.len();
    let mut rows = vec![TermOccurrence::default(); candidates.len() * width];
    let mut numbers = vec![NONE; resolved.state.places.len()];
    for (number, candidate) in candidates.iter().enumerate() {
        numbers[candidate.slot as usize] = number as u32;
    }
    let mut summary_counts = vec![0; width];
    for (at, term) in resolved.terms.iter().enumerate() {
        let mut first = 0;
        for (segment, number) in resolved.state.segments.iter().zip(term.numbers) {
            if let Some(number) = number {
                let postings = segment.postings(number);
                let found = postings.clone().zip(segment.occurrences(postings));
                for (posting, (slot, counts)) in found {
                    let slot = first + slot;
                    // Replaced documents stay in the base segment until it is merged.
                    if counts.in_summary_fields() && resolved.state.places[slot as usize] != GONE {
                        summary_counts[at] += 1;
                    }
                    let candidate = numbers[slot as usize];
                    if candidate == NONE {
                        continue;
                    }
                    rows[candidate as usize * width + at] = TermOccurrence {
                        counts,
                        posting: Some(posting as u32),
                        combined: resolved.tables.bm25f_score(slot, counts),
                    };
                }
            }
            first += segment.len() as u32;
        }
    }
    (rows, summary_counts)
}

/// Returns the scores of each candidate's three best sections.
///
/// Works term by term in the order of the postings: their positions are adjacent in memory, while
/// those of one candidate are scattered over the index.
fn score_sections(
    resolved: &ResolvedQuery<'_>,
    candidates: &[ScoredDocument],
    rows: &[TermOccurrence],
) -> Vec<[f64; 3]> {
    let (constants, totals) = (&resolved.tables.constants, &resolved.state.totals);
    let mut sections: Vec<_> = candidates
        .iter()
        .map(|candidate| {
            let (_, segment, local) = resolved.state.segment(candidate.slot);
            (segment, SectionScores::new(constants, totals, segment, local))
        })
        .collect();
    let mut by_slot: Vec<usize> = (0..candidates.len()).collect();
    // Postings are ordered by slot, so this order reads positions sequentially.
    by_slot.sort_unstable_by_key(|&number| candidates[number].slot);
    let width = resolved.terms.len();
    for (at, term) in resolved.terms.iter().enumerate() {
        for &number in &by_slot {
            if let Some(posting) = rows[number * width + at].posting {
                let (segment, sections) = &mut sections[number];
                sections.add(term.weight, segment.positions(posting as usize));
            }
        }
    }
    sections.iter().map(|(_, sections)| sections.best()).collect()
}

/// Returns the weight of each term, times the square root of the share of the skills with the term
/// that have it in the name or the description, which state the purpose of a skill.
fn summary_weights(resolved: &ResolvedQuery<'_>, summary_counts: &[u32]) -> Vec<f64> {
    let weigh = |(term, &summary_counts): (&ResolvedTerm, &u32)| {
        let share = (f64::from(summary_counts) + 0.3) / (f64::from(term.frequency) + 1.0);
        term.weight * share.sqrt()
    };
    resolved.terms.iter().zip(summary_counts).map(weigh).collect()
}

/// Returns the weight of each term, times its rarity among the first candidates.
fn local_weights(resolved: &ResolvedQuery<'_>, rows: &[TermOccurrence]) -> Vec<f64> {
    let width = resolved.terms.len().max(1);
    let first = || rows.chunks(width).take(LOCAL_CANDIDATES);
    let among = first().count() as f64;
    let weigh = |(at, term): (usize, &ResolvedTerm)| {
        let with = first().filter(|row| !row[at].counts.is_empty()).count() as f64;
        term.weight * (1.0 + (among - with + 0.5) / (with + 0.5)).ln()
    };
    resolved.terms.iter().enumerate().map(weigh).collect()
}

/// Measures the sums that use other weights than those of the first stage.
fn measure_weights(
    [summary, local]: &[Vec<f64>; 2],
    row: &[TermOccurrence],
    measures: &mut CandidateMeasures,
) {
    for ((occurrence, summary), local) in row.iter().zip(summary).zip(local) {
        measures.summary_weighted += summary * occurrence.combined;
        measures.local += local * occurrence.combined;
        if occurrence.counts.get(DESCRIPTION) > 0 {
            measures.described += 1.0;
        }
    }
}

/// Measures the sums over single terms, the name and the pairs.
fn measure_terms(
    resolved: &ResolvedQuery<'_>,
    slot: u32,
    row: &[TermOccurrence],
    measures: &mut CandidateMeasures,
) {
    let (which, segment, local) = resolved.state.segment(slot);
    let tables = &resolved.tables;
    for (term, occurrence) in resolved.terms.iter().zip(row) {
        // Every further sum is zero for a missing term.
        if occurrence.posting.is_none() {
            continue;
        }
        let counts = occurrence.counts;
        measures.description += term.weight * tables.field_score(slot, counts, DESCRIPTION);
        measures.headings += term.weight * tables.field_score(slot, counts, HEADINGS);
        if !counts.is_empty() {
            measures.covered += term.rarity;
        }
    }
    for &number in segment.name(local) {
        let rarity = tables.rarity(resolved.state.frequencies[which][number as usize]);
        measures.name_mass += rarity;
        if resolved.terms.iter().any(|term| term.numbers[which] == Some(number)) {
            measures.name_covered += rarity;
        }
    }
    measures.name_mass = measures.name_mass.max(1e-6);
    let layout = segment.documents[local].layout;
    for &(a, b) in &resolved.query.pairs {
        // A pair needs both terms, so most pairs are skipped without reading positions.
        let (Some(first), Some(second)) = (row[a].posting, row[b].posting) else { continue };
        let first = segment.positions(first as usize);
        let found = find_pairs(first, segment.positions(second as usize), layout);
        let weight = (resolved.terms[a].rarity + resolved.terms[b].rarity) / 2.0;
        measures.body_pairs += weight * f64::from(found.in_body).ln_1p();
        if found.in_meta {
            measures.meta_pairs += weight;
        }
    }
}

/// A sentence of the query.
struct QuerySentence {
    /// Its terms by number, each with its weight in this sentence.
    terms: Vec<(usize, f64)>,
    mass: f64,
}

impl QuerySentence {
    fn new(resolved: &ResolvedQuery<'_>, counted: &[(usize, u32)]) -> Self {
        let weighted = |&(term, count): &(usize, u32)| {
            (term, f64::from(count).sqrt() * resolved.terms[term].rarity)
        };
        let terms: Vec<_> = counted.iter().map(weighted).collect();
        // The small constant avoids a division by zero for a sentence without weight.
        let mass = terms.iter().map(|(_, weight)| weight).sum::<f64>() + 1e-6;
        Self { terms, mass }
    }
}

fn measure_sentences(
    sentences: &[QuerySentence],
    row: &[TermOccurrence],
    measures: &mut CandidateMeasures,
) {
    let score = |sentence: &QuerySentence| {
        let terms = sentence.terms.iter();
        terms.map(|&(term, weight)| weight * row[term].combined).sum::<f64>() / sentence.mass
    };
    let scores = || sentences.iter().map(score);
    measures.first_sentence = scores().next().unwrap_or_default();
    measures.worst_sentence = scores().reduce(f64::min).unwrap_or_default();
    measures.best_sentence = scores().fold(0.0, f64::max);
}

fn rank_by_cosine(candidates: &mut [MeasuredCandidate]) {
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    // The sort is stable: equal cosines stay in the order of the candidates.
    order.sort_by(|&a, &b| {
        let cosine = |at: usize| candidates[at].measures.cosines.description;
        cosine(b).total_cmp(&cosine(a))
    });
    for (rank, at) in order.into_iter().enumerate() {
        candidates[at].measures.cosine_rank = rank;
    }
}
