//! The numbers that decide whether a rule with a `chance` applies.

use std::sync::atomic::{AtomicU64, Ordering};

/// The numbers drawn so far. The models of a provider share them, so that a model that is resolved
/// again does not repeat the numbers.
#[derive(Debug, Default)]
pub(crate) struct ChanceDraws {
    drawn: AtomicU64,
}

impl ChanceDraws {
    /// Draws the next number from 0 to 1, without 1: the same sequence for the same seed.
    pub(super) fn next_unit(&self, seed: u64) -> f64 {
        let drawn = self.drawn.fetch_add(1, Ordering::Relaxed);
        // The generator splitmix64, whose states are equally spaced.
        let mut mixed =
            seed.wrapping_add(drawn.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // The upper 53 bits fit into a number with a fraction.
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}
