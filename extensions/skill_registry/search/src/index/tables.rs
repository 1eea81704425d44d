//! What follows from the constants of BM25F and the sums over all documents.

use std::sync::Arc;

use super::Totals;
use crate::Constants;
use crate::field::FIELDS;
use crate::segment::{Counts, Segment};

/// What follows from the constants of BM25F and the sums over all documents. Made anew at every
/// change, which takes a fraction of a millisecond; so nothing else has to follow a change.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    pub(crate) constants: Constants,
    /// For each slot and field 1 / norm, where norm = 1 − b + b × length / mean length.
    inverse_norms: Vec<[f64; FIELDS]>,
    /// Rarity by document frequency.
    rarities: Vec<f64>,
}

impl Tables {
    pub(crate) fn new(
        constants: &Constants,
        segments: &[Arc<Segment>; 2],
        totals: &Totals,
    ) -> Self {
        let means = totals.mean_lengths();
        let inverse_norms = |lengths: [u32; FIELDS]| {
            std::array::from_fn(|field| {
                let b = constants.length[field];
                1.0 / (1.0 - b + b * f64::from(lengths[field]) / means[field]).max(1e-9)
            })
        };
        let entries = segments.iter().flat_map(|segment| &segment.documents);
        let all = totals.documents() as f64;
        let rarity = |having: usize| {
            let having = having as f64;
            (1.0 + (all - having + 0.5) / (having + 0.5)).ln().powf(constants.idf_power)
        };
        Self {
            constants: *constants,
            inverse_norms: entries.map(|entry| inverse_norms(entry.lengths)).collect(),
            rarities: (0..=totals.documents()).map(rarity).collect(),
        }
    }

    /// How much it says that a document has a term which so many have:
    /// g = ln(1 + (N − df + ½) / (df + ½)) ^ idf_power.
    pub(crate) fn rarity(&self, frequency: u32) -> f64 {
        self.rarities[frequency as usize]
    }

    /// The saturated sum of a term's frequencies over all fields, each weighted and divided by its
    /// norm.
    pub(crate) fn combined(&self, slot: u32, counts: Counts) -> f64 {
        let inverse = &self.inverse_norms[slot as usize];
        let of = |field: usize| {
            self.constants.weights[field] * (f64::from(counts.get(field)) * inverse[field])
        };
        let frequency = match counts.is_body_alone() {
            true => of(FIELDS - 1),
            false => of(0) + of(1) + of(2) + of(3) + of(4),
        };
        self.constants.saturated(frequency)
    }

    /// The saturated frequency of a term in one field, divided by its norm.
    pub(crate) fn in_field(&self, slot: u32, counts: Counts, field: usize) -> f64 {
        let inverse = self.inverse_norms[slot as usize][field];
        self.constants.saturated(f64::from(counts.get(field)) * inverse)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.inverse_norms.capacity() * size_of::<[f64; FIELDS]>()
            + self.rarities.capacity() * size_of::<f64>()
    }
}
