//! Precomputed tables for BM25F.

use std::sync::Arc;

use super::CorpusTotals;
use crate::Bm25fConstants;
use crate::field::{BODY, DESCRIPTION, HEADINGS, NAME, TAGS};
use crate::segment::{DocumentEntry, FieldCounts, IndexSegment};

/// The values derived from the constants of BM25F and the sums over all documents. They are
/// recomputed at every update, which takes a fraction of a millisecond.
#[derive(Clone, Debug)]
pub(crate) struct ScoringTables {
    pub(crate) constants: Bm25fConstants,
    /// The weight / norm of each slot's body, where norm = 1 − b + b × length / mean length. Stored
    /// apart, because most terms occur only in the body and this array fits in a cache.
    body: Vec<f64>,
    /// The inverse norms of each slot's other fields.
    others: Vec<[f64; BODY]>,
    /// The rarity by document frequency.
    rarities: Vec<f64>,
}

impl ScoringTables {
    pub(crate) fn new(
        constants: &Bm25fConstants,
        segments: &[Arc<IndexSegment>; 2],
        totals: &CorpusTotals,
    ) -> Self {
        let means = totals.mean_lengths();
        let inverse = |entry: &DocumentEntry, field: usize| {
            let b = constants.length[field];
            let norm = 1.0 - b + b * f64::from(entry.lengths[field]) / means[field];
            // With b = 1 an empty field has norm 0.
            1.0 / norm.max(1e-9)
        };
        let entries = || segments.iter().flat_map(|segment| &segment.documents);
        let all = totals.documents() as f64;
        let rarity = |having: usize| {
            let having = having as f64;
            (1.0 + (all - having + 0.5) / (having + 0.5)).ln().powf(constants.idf_power)
        };
        Self {
            constants: *constants,
            body: entries().map(|entry| constants.weights[BODY] * inverse(entry, BODY)).collect(),
            others: entries()
                .map(|entry| std::array::from_fn(|field| inverse(entry, field)))
                .collect(),
            rarities: (0..=totals.documents()).map(rarity).collect(),
        }
    }

    /// Returns the rarity of a term with this document frequency:
    /// g = ln(1 + (N − df + ½) / (df + ½)) ^ idf_power.
    pub(crate) fn rarity(&self, frequency: u32) -> f64 {
        self.rarities[frequency as usize]
    }

    /// Returns the saturated sum of a term's frequencies over all fields, each weighted and divided by
    /// its norm.
    pub(crate) fn bm25f_score(&self, slot: u32, counts: FieldCounts) -> f64 {
        let slot = slot as usize;
        let body = f64::from(counts.get(BODY)) * self.body[slot];
        if counts.is_body_only() {
            return self.constants.saturate(body);
        }
        let inverse = &self.others[slot];
        let weighted = |field: usize| {
            self.constants.weights[field] * (f64::from(counts.get(field)) * inverse[field])
        };
        let others = weighted(NAME) + weighted(DESCRIPTION) + weighted(TAGS) + weighted(HEADINGS);
        self.constants.saturate(others + body)
    }

    /// Returns the saturated frequency of a term in a field other than the body, divided by its norm.
    pub(crate) fn field_score(&self, slot: u32, counts: FieldCounts, field: usize) -> f64 {
        let inverse = self.others[slot as usize][field];
        self.constants.saturate(f64::from(counts.get(field)) * inverse)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.body.capacity() * size_of::<f64>()
            + self.others.capacity() * size_of::<[f64; BODY]>()
            + self.rarities.capacity() * size_of::<f64>()
    }
}
