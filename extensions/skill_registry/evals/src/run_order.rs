//! The order of runs, and the names of their directories.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// The longest part of a case's name in a directory's name, in characters.
const MAX_SLUG: usize = 60;

/// Numbers that look random and depend on a seed alone (the generator splitmix64).
pub(crate) struct SeededNumbers {
    state: u64,
}

impl SeededNumbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) fn next_number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to 1, without 1.
    #[cfg(test)]
    pub(crate) fn next_unit(&mut self) -> f64 {
        // The upper 53 bits fit into a number with a fraction.
        (self.next_number() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Puts items into an order that depends on the seed alone, so that the arms of a comparison run
/// interleaved: a provider that changes during a run affects both.
pub fn shuffle_runs<T>(items: &mut [T], seed: u64) {
    let mut numbers = SeededNumbers::new(seed);
    for last in (1..items.len()).rev() {
        let other = numbers.next_number() % (last as u64 + 1);
        // Not larger than `last`, which is a `usize`.
        items.swap(last, usize::try_from(other).unwrap_or(last));
    }
}

/// Returns the name of a case as a part of a file's name: letters, digits, `-`, `_` and `.`. The
/// slug of any other name ends with `+` and a part of its digest, so that two cases never share a
/// directory.
#[must_use]
pub fn case_slug(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut slug: String =
        name.chars().take(MAX_SLUG).map(|c| if is_plain(c) { c } else { '-' }).collect();
    // A name in another case would be the same directory in some file systems.
    let is_exact = slug == name && !name.starts_with('.') && slug == slug.to_lowercase();
    if !is_exact || slug.is_empty() {
        let digest = Sha256::digest(name.as_bytes());
        slug = slug.trim_start_matches('.').to_owned();
        // No plain name has this character.
        slug.push('+');
        for byte in &digest[..8] {
            // Writing to a `String` cannot fail.
            let _ = write!(slug, "{byte:02x}");
        }
    }
    slug
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn seed_determines_order() {
        let order = |seed| {
            let mut items: Vec<u32> = (0..50).collect();
            shuffle_runs(&mut items, seed);
            items
        };
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
        let mut sorted = order(7);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..50).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn names_of_directories_are_distinct(one in ".{0,80}", other in ".{0,80}") {
            let slug = case_slug(&one);
            prop_assert!(!slug.is_empty() && !slug.starts_with('.') && slug.len() <= MAX_SLUG + 17);
            prop_assert!(slug.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+".contains(c)));
            if one != other {
                prop_assert_ne!(slug.to_lowercase(), case_slug(&other).to_lowercase());
            }
        }
    }
}
