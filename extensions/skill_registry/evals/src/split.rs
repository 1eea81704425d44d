//! The split of cases into train and held-out.

use sha2::{Digest as _, Sha256};

use crate::case::CaseSplit;

/// The part of the cases that may be shown to authors, in percent.
const TRAIN_PERCENT: u64 = 60;

/// Returns the side of a case without a fixed one: 60 % of the cases are train.
///
/// The side depends on the seed, the text and the expectation alone, so that a new case moves no
/// other, and both expectations are divided alike.
#[must_use]
pub fn split_of(seed: u64, text: &str, should_trigger: bool) -> CaseSplit {
    let mut hasher = Sha256::new();
    hasher.update(seed.to_le_bytes());
    // Part of the input, so that both expectations are divided independently.
    hasher.update([u8::from(should_trigger)]);
    hasher.update(text.as_bytes());
    let digest = hasher.finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    // The remainder of a number of 64 bits is as good as uniform.
    if u64::from_le_bytes(first) % 100 < TRAIN_PERCENT {
        CaseSplit::Train
    } else {
        CaseSplit::HeldOut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn train(seed: u64, should_trigger: bool) -> Vec<bool> {
        let side = |n: usize| split_of(seed, &format!("query {n}"), should_trigger);
        (0..1_000).map(|n| side(n) == CaseSplit::Train).collect()
    }

    #[test]
    fn both_expectations_are_divided_alike() {
        for expectation in [true, false] {
            let count = train(7, expectation).into_iter().filter(|side| *side).count();
            assert!((560..=640).contains(&count), "{count}");
        }
    }

    #[test]
    fn seed_selects_another_split() {
        assert_eq!(train(7, true), train(7, true));
        let same = train(7, true).into_iter().zip(train(8, true)).filter(|(a, b)| a == b).count();
        // Independent sides agree in 52 % of the cases.
        assert!((450..=590).contains(&same), "{same}");
    }
}
