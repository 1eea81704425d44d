//! What the second stage measures of candidates.

use super::candidates::ScoredDocument;
use super::pairs::find_pairs;
use super::sections::SectionScores;
use super::{MeasuredCandidate, ResolvedQuery, ResolvedTerm};
use crate::field::{DESCRIPTION, HEADINGS};
use crate::index::GONE;
use crate::segment::FieldCounts;
use crate::{CandidateMeasures, FieldSet, SearchRequest};

/// Among so many candidates a term's local rarity is counted.
const FIRST: usize = 50;

/// Where a candidate has a term of the query.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TermOccurrence {
    pub(super) counts: FieldCounts,
    /// The number of the posting; none where the candidate does not have the term.
    pub(super) posting: Option<u32>,
    /// The saturated frequency over all fields.
    combined: f64,
}

/// Candidates with what is measured of them.
pub(crate) struct MeasuredCandidates {
    /// In the order of the first stage.
    pub(super) candidates: Vec<MeasuredCandidate>,
    /// For each candidate and term of the query where it occurs.
    rows: Vec<TermOccurrence>,
    /// The number of terms of the query.
    width: usize,
}

impl MeasuredCandidates {
    /// For each term of the query how often the fields of a candidate have it.
    pub(super) fn counts(
        &self,
        candidate: &MeasuredCandidate,
    ) -> impl Iterator<Item = FieldCounts> + '_ {
        let row = &self.rows[candidate.number * self.width..(candidate.number + 1) * self.width];
        row.iter().map(|occurrence| occurrence.counts)
    }

    /// The fields in which a term of the query occurs.
    pub(super) fn fields(&self, candidate: &MeasuredCandidate) -> FieldSet {
        let mut fields = FieldSet::default();
        self.counts(candidate).for_each(|counts| fields.extend(counts.fields()));
        fields
    }
}

/// Measures candidates.
pub(super) fn measure_candidates(
    asked: &ResolvedQuery<'_>,
    request: &SearchRequest<'_>,
    candidates: &[ScoredDocument],
) -> MeasuredCandidates {
    let max_lex = candidates.first().map_or(0.0, |best| best.lex).max(1e-9);
    let whole = CandidateMeasures {
        max_lex,
        mass: asked.terms.iter().map(|term| term.weight).sum::<f64>() + 1e-6,
        distinct_mass: asked.terms.iter().map(|term| term.rarity).sum::<f64>() + 1e-6,
        ..CandidateMeasures::default()
    };
    let sentences: Vec<QuerySentence> = (0..asked.query.sentences.len())
        .map(|number| QuerySentence::new(asked, &asked.query.sentences[number]))
        .collect();
    let (rows, told) = occurrences(asked, candidates);
    let worths = [summary_weights(asked, &told), local_weights(asked, &rows)];
    let whole = CandidateMeasures {
        told_mass: worths[0].iter().sum::<f64>() + 1e-6,
        local_mass: worths[1].iter().sum::<f64>() + 1e-6,
        terms: asked.terms.len() as f64,
        ..whole
    };
    let semantics = request.semantics.filter(|_| request.ranker.uses_cosines());
    let sections = sections(asked, candidates, &rows);
    let width = asked.terms.len();
    let mut measured: Vec<MeasuredCandidate> = candidates
        .iter()
        .zip(sections)
        .enumerate()
        .map(|(number, (scored, sections))| {
            let row = &rows[number * width..(number + 1) * width];
            let mut measures = CandidateMeasures { lex: scored.lex, sections, ..whole.clone() };
            measure_terms(asked, scored.slot, row, &mut measures);
            measure_weights(&worths, row, &mut measures);
            measure_sentences(&sentences, row, &mut measures);
            if let Some(semantics) = semantics {
                let id = asked.state.id(scored.slot);
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

/// For each candidate and term of the query where it occurs; and for each term how many documents
/// have it in the name or the description.
fn occurrences(
    asked: &ResolvedQuery<'_>,
    candidates: &[ScoredDocument],
) -> (Vec<TermOccurrence>, Vec<u32>) {
    const NONE: u32 = u32::MAX;
    let width = asked.terms.len();
    let mut rows = vec![TermOccurrence::default(); candidates.len() * width];
    let mut numbers = vec![NONE; asked.state.places.len()];
    for (number, candidate) in candidates.iter().enumerate() {
        numbers[candidate.slot as usize] = number as u32;
    }
    let mut told = vec![0; width];
    for (at, term) in asked.terms.iter().enumerate() {
        let mut first = 0;
        for (segment, number) in asked.state.segments.iter().zip(term.numbers) {
            if let Some(number) = number {
                let postings = segment.postings(number);
                let found = postings.clone().zip(segment.occurrences(postings));
                for (posting, (slot, counts)) in found {
                    let slot = first + slot;
                    if counts.in_summary_fields() && asked.state.places[slot as usize] != GONE {
                        told[at] += 1;
                    }
                    let candidate = numbers[slot as usize];
                    if candidate == NONE {
                        continue;
                    }
                    rows[candidate as usize * width + at] = TermOccurrence {
                        counts,
                        posting: Some(posting as u32),
                        combined: asked.tables.bm25f_score(slot, counts),
                    };
                }
            }
            first += segment.len() as u32;
        }
    }
    (rows, told)
}

/// The scores of each candidate's three best sections.
///
/// Term by term and in the order of the postings: their positions lie one after the other, while
/// those of one candidate lie all over the index.
fn sections(
    asked: &ResolvedQuery<'_>,
    candidates: &[ScoredDocument],
    rows: &[TermOccurrence],
) -> Vec<[f64; 3]> {
    let (constants, totals) = (&asked.tables.constants, &asked.state.totals);
    let mut sections: Vec<_> = candidates
        .iter()
        .map(|candidate| {
            let (_, segment, local) = asked.state.segment(candidate.slot);
            (segment, SectionScores::new(constants, totals, segment, local))
        })
        .collect();
    let mut by_slot: Vec<usize> = (0..candidates.len()).collect();
    by_slot.sort_unstable_by_key(|&number| candidates[number].slot);
    let width = asked.terms.len();
    for (at, term) in asked.terms.iter().enumerate() {
        for &number in &by_slot {
            if let Some(posting) = rows[number * width + at].posting {
                let (segment, sections) = &mut sections[number];
                sections.add(term.weight, segment.positions(posting as usize));
            }
        }
    }
    sections.iter().map(|(_, sections)| sections.best()).collect()
}

/// The weight of each term, times the square root of the share of the skills with the term that
/// have it in the name or the description: bodies tell stories, these tell what a skill is for.
fn summary_weights(asked: &ResolvedQuery<'_>, told: &[u32]) -> Vec<f64> {
    let worth = |(term, &told): (&ResolvedTerm, &u32)| {
        let share = (f64::from(told) + 0.3) / (f64::from(term.frequency) + 1.0);
        term.weight * share.sqrt()
    };
    asked.terms.iter().zip(told).map(worth).collect()
}

/// The weight of each term, times its rarity among the first candidates: what tells them apart.
fn local_weights(asked: &ResolvedQuery<'_>, rows: &[TermOccurrence]) -> Vec<f64> {
    let width = asked.terms.len().max(1);
    let first = || rows.chunks(width).take(FIRST);
    let among = first().count() as f64;
    let worth = |(at, term): (usize, &ResolvedTerm)| {
        let with = first().filter(|row| !row[at].counts.is_empty()).count() as f64;
        term.weight * (1.0 + (among - with + 0.5) / (with + 0.5)).ln()
    };
    asked.terms.iter().enumerate().map(worth).collect()
}

/// Measures what counts terms by another worth than their weight.
fn measure_weights(
    [told, local]: &[Vec<f64>; 2],
    row: &[TermOccurrence],
    measures: &mut CandidateMeasures,
) {
    for ((occurrence, told), local) in row.iter().zip(told).zip(local) {
        measures.told += told * occurrence.combined;
        measures.local += local * occurrence.combined;
        if occurrence.counts.get(DESCRIPTION) > 0 {
            measures.described += 1.0;
        }
    }
}

/// Measures what depends on terms one by one, and on their places.
fn measure_terms(
    asked: &ResolvedQuery<'_>,
    slot: u32,
    row: &[TermOccurrence],
    measures: &mut CandidateMeasures,
) {
    let (which, segment, local) = asked.state.segment(slot);
    let tables = &asked.tables;
    for (term, occurrence) in asked.terms.iter().zip(row) {
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
        let rarity = tables.rarity(asked.state.frequencies[which][number as usize]);
        measures.name_mass += rarity;
        if asked.terms.iter().any(|term| term.numbers[which] == Some(number)) {
            measures.name_covered += rarity;
        }
    }
    measures.name_mass = measures.name_mass.max(1e-6);
    let layout = segment.documents[local].layout;
    for &(a, b) in &asked.query.pairs {
        let (Some(first), Some(second)) = (row[a].posting, row[b].posting) else { continue };
        let first = segment.positions(first as usize);
        let found = find_pairs(first, segment.positions(second as usize), layout);
        let weight = (asked.terms[a].rarity + asked.terms[b].rarity) / 2.0;
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
    fn new(asked: &ResolvedQuery<'_>, counted: &[(usize, u32)]) -> Self {
        let weighted = |&(term, count): &(usize, u32)| {
            (term, f64::from(count).sqrt() * asked.terms[term].rarity)
        };
        let terms: Vec<_> = counted.iter().map(weighted).collect();
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
    // The sort is stable: what is as near stays in the candidates' order.
    order.sort_by(|&a, &b| {
        let cosine = |at: usize| candidates[at].measures.cosines.description;
        cosine(b).total_cmp(&cosine(a))
    });
    for (rank, at) in order.into_iter().enumerate() {
        candidates[at].measures.cosine_rank = rank;
    }
}
