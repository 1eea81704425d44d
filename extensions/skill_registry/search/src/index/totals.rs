//! The sums over all documents.

use crate::field::FIELDS;
use crate::segment::IndexSegment;

/// The sums over all live documents, as integers: they do not depend on the order of updates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CorpusTotals {
    documents: u64,
    lengths: [u64; FIELDS],
    sections: u64,
    in_sections: u64,
}

impl CorpusTotals {
    pub(super) fn from_segment(segment: &IndexSegment) -> Self {
        let mut totals = Self::default();
        (0..segment.len()).for_each(|slot| totals.add(segment, slot));
        totals
    }

    pub(super) fn add(&mut self, segment: &IndexSegment, slot: usize) {
        self.change(segment, slot, |total, value| total + value);
    }

    pub(super) fn remove(&mut self, segment: &IndexSegment, slot: usize) {
        self.change(segment, slot, |total, value| total - value);
    }

    // One function for both directions keeps the sums consistent.
    fn change(&mut self, segment: &IndexSegment, slot: usize, op: fn(u64, u64) -> u64) {
        self.documents = op(self.documents, 1);
        for (total, length) in self.lengths.iter_mut().zip(segment.documents[slot].lengths) {
            *total = op(*total, u64::from(length));
        }
        for (start, end) in segment.sections(slot) {
            self.sections = op(self.sections, 1);
            self.in_sections = op(self.in_sections, u64::from(end - start));
        }
    }

    /// Returns the number of documents.
    pub(crate) fn documents(&self) -> usize {
        self.documents as usize
    }

    /// Returns the mean length of each field, at least 1e-9.
    pub(crate) fn mean_lengths(&self) -> [f64; FIELDS] {
        let documents = self.documents.max(1) as f64;
        self.lengths.map(|length| (length as f64 / documents).max(1e-9))
    }

    /// Returns the mean length of a section, at least 1e-9.
    pub(crate) fn mean_section(&self) -> f64 {
        (self.in_sections as f64 / self.sections.max(1) as f64).max(1e-9)
    }
}
