//! The scores of the sections of a document's body.

use crate::Bm25fConstants;
use crate::index::CorpusTotals;
use crate::segment::{IndexSegment, SECTIONS};

/// The sections of a document's body with the scores of the terms seen so far.
pub(super) struct SectionScores<'a> {
    constants: &'a Bm25fConstants,
    ranges: &'a [(u16, u16)],
    /// Half of the inverse mean length of a section.
    half_inverse_mean: f64,
    scores: [f64; SECTIONS],
    /// The count of the current term in each section.
    counts: [u16; SECTIONS],
}

impl<'a> SectionScores<'a> {
    pub(super) fn new(
        constants: &'a Bm25fConstants,
        totals: &CorpusTotals,
        segment: &'a IndexSegment,
        slot: usize,
    ) -> Self {
        let ranges = segment.sections(slot);
        let half_inverse_mean = 0.5 / totals.mean_section();
        let (scores, counts) = ([0.0; SECTIONS], [0; SECTIONS]);
        Self { constants, ranges, half_inverse_mean, scores, counts }
    }

    /// Adds a term by its weight and its ascending positions: to each section that has it the weight
    /// times sat(tf / norm), where norm = ½ + ½ × length / mean length.
    pub(super) fn add(&mut self, weight: f64, positions: &[u16]) {
        let Self { ranges, counts, .. } = self;
        let mut first = ranges.len();
        // Sections from `end` on have no position so far.
        let mut end = 0;
        let mut at = 0;
        for &position in positions {
            while ranges.get(at).is_some_and(|range| range.1 <= position) {
                at += 1;
            }
            // Sections overlap, so more than one can have the position.
            for (number, range) in ranges.iter().enumerate().skip(at) {
                if range.0 > position {
                    break;
                }
                counts[number] += 1;
                first = first.min(number);
                end = number + 1;
            }
        }
        for number in first..end {
            // Taking resets the counts for the next term.
            let count = f64::from(std::mem::take(&mut counts[number]));
            let (start, end) = ranges[number];
            let norm = 0.5 + f64::from(end - start) * self.half_inverse_mean;
            self.scores[number] += weight * self.constants.saturate(count / norm);
        }
    }

    /// Returns the three highest scores, highest first; 0 for missing sections.
    pub(super) fn best(&self) -> [f64; 3] {
        let mut best = [0.0; 3];
        for &score in &self.scores[..self.ranges.len()] {
            if let Some(at) = best.iter().position(|other| score > *other) {
                best[at..].rotate_right(1);
                best[at] = score;
            }
        }
        best
    }
}
