//! The sections of a document's body that fit best.

use crate::Constants;
use crate::index::Totals;
use crate::segment::Segment;

/// The sections of a document's body with the scores of the terms seen so far.
pub(super) struct Sections<'a> {
    constants: &'a Constants,
    ranges: &'a [(u16, u16)],
    mean: f64,
    scores: Vec<f64>,
}

impl<'a> Sections<'a> {
    pub(super) fn new(
        constants: &'a Constants,
        totals: &Totals,
        segment: &'a Segment,
        slot: usize,
    ) -> Self {
        let ranges = segment.sections(slot);
        let mean = totals.mean_section();
        Self { constants, ranges, mean, scores: vec![0.0; ranges.len()] }
    }

    /// Adds a term by its weight and its ascending positions: to each section that has it the weight
    /// times sat(tf / (½ + ½ × length / mean length)).
    pub(super) fn add(&mut self, weight: f64, positions: &[u16]) {
        let mut rest = positions;
        for (&(start, end), score) in self.ranges.iter().zip(&mut self.scores) {
            // Sections are in order and overlap, so that positions behind a start can be needed again.
            rest = &rest[rest.partition_point(|position| *position < start)..];
            let count = rest.partition_point(|position| *position < end);
            if count > 0 {
                let norm = 0.5 + 0.5 * f64::from(end - start) / self.mean;
                *score += weight * self.constants.saturated(count as f64 / norm);
            }
        }
    }

    /// The three highest scores, highest first; 0 where there are fewer sections.
    pub(super) fn best(&self) -> [f64; 3] {
        let mut best = [0.0; 3];
        for &score in &self.scores {
            if let Some(at) = best.iter().position(|other| score > *other) {
                best[at..].rotate_right(1);
                best[at] = score;
            }
        }
        best
    }
}
