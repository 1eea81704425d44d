//! Search for overlapping descriptions without comparing all pairs.
//!
//! Every description becomes a set of words, weighted by rarity in the catalog. Two descriptions
//! overlap if the shared weight is most of their combined weight. Two such sets share one of their
//! rarest words, so that only the skills listed under those words are compared.

use std::collections::HashMap;

use super::CatalogSkill;

/// The minimum share of the combined weight at which an overlap is reported.
const MIN_OVERLAP: f64 = 0.62;

/// The minimum number of words: shorter descriptions are not compared.
const MIN_WORDS: usize = 5;

/// The maximum number of skills compared per word. More skills with one rare word come from one
/// template, and the first ones represent all.
const MAX_COMPARED: usize = 64;

/// Words that belong to the form of descriptions instead of the purpose of skills, sorted.
const STOP_WORDS: [&str; 58] = [
    "a", "about", "also", "an", "and", "any", "are", "as", "ask", "asking", "asks", "at", "be",
    "by", "for", "from", "how", "if", "in", "into", "is", "it", "its", "need", "needs", "not",
    "of", "on", "or", "should", "skill", "skills", "such", "that", "the", "their", "these", "they",
    "this", "those", "to", "use", "used", "user", "users", "uses", "using", "via", "want", "wants",
    "what", "when", "whenever", "which", "will", "with", "you", "your",
];

/// A pair of skills whose descriptions overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DescriptionOverlap {
    /// The later skill.
    pub(super) index: usize,
    /// The earlier skill with the greatest similarity.
    pub(super) other: usize,
    /// The shared weight in percent.
    pub(super) percent: u32,
    /// Whether both have the same words.
    pub(super) same: bool,
}

/// Returns, for every skill, the earlier one with the most similar description, if any overlaps.
pub(super) fn find_overlaps(skills: &[CatalogSkill]) -> Vec<DescriptionOverlap> {
    let WordIndex { numbers, sets, weights } = WordIndex::build(skills);
    let names: Vec<Vec<u32>> =
        skills.iter().map(|skill| known_words(&skill.id, &numbers)).collect();
    // A word of the skill's name that only its own description has distinguishes the two.
    let is_distinguished = |one: usize, other: usize| {
        let own = |word: &u32| sets[one].binary_search(word).is_ok();
        names[one].iter().any(|word| own(word) && sets[other].binary_search(word).is_err())
    };
    // In a family such as `x-automation` and `y-automation`, one such word is enough.
    let are_distinguished = |one: usize, other: usize| {
        let family = names[one].iter().any(|word| names[other].contains(word));
        let (this, that) = (is_distinguished(one, other), is_distinguished(other, one));
        (this && that) || (family && (this || that))
    };
    let mut found = Vec::new();
    let mut first_of: HashMap<&[u32], usize> = HashMap::with_capacity(sets.len());
    let mut by_word: Vec<Vec<usize>> = vec![Vec::new(); weights.len()];
    let mut compared_with = vec![usize::MAX; sets.len()];
    let totals: Vec<f64> = sets.iter().map(|set| total_weight(set, &weights)).collect();
    for (index, set) in sets.iter().enumerate() {
        if set.len() < MIN_WORDS {
            continue;
        }
        // Equal sets are found by hash, so that a catalog of copies takes linear time.
        let first = *first_of.entry(set).or_insert(index);
        if first != index {
            found.push(DescriptionOverlap { index, other: first, percent: 100, same: true });
            continue;
        }
        let mut best: Option<(f64, usize)> = None;
        for &word in rarest(set, &weights) {
            for &other in by_word[word as usize].iter().take(MAX_COMPARED) {
                // Two skills usually share several rare words.
                if compared_with[other] == index {
                    continue;
                }
                compared_with[other] = index;
                let least = least_shared(totals[index], totals[other]);
                if !could_overlap(set, &sets[other], &weights, totals[index] - least) {
                    continue;
                }
                let shared = similarity(set, &sets[other], &weights);
                let better = shared >= MIN_OVERLAP && best.is_none_or(|(most, _)| shared > most);
                if better && !are_distinguished(index, other) {
                    best = Some((shared, other));
                }
            }
            // Added after the search of the list, so that a skill is not compared with itself.
            by_word[word as usize].push(index);
        }
        if let Some((shared, other)) = best {
            let percent = to_percent(shared);
            found.push(DescriptionOverlap { index, other, percent, same: false });
        }
    }
    found
}

/// Converts a share to a percentage of at most 99, because 100 means equal sets.
fn to_percent(part: f64) -> u32 {
    let mut percent = 0;
    // Counting avoids a lossy cast; the loop has at most 99 steps.
    while percent < 99 && f64::from(percent + 1) <= part * 100.0 {
        percent += 1;
    }
    percent
}

/// The words of all descriptions as numbers in the order of frequency, rare words first.
struct WordIndex {
    numbers: HashMap<String, u32>,
    /// The words of each description in ascending order.
    sets: Vec<Vec<u32>>,
    /// The weight of each word.
    weights: Vec<f64>,
}

impl WordIndex {
    fn build(skills: &[CatalogSkill]) -> Self {
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let mut counts: Vec<u32> = Vec::new();
        let mut sets: Vec<Vec<u32>> = Vec::with_capacity(skills.len());
        for skill in skills {
            let lower = skill.description.0.to_lowercase();
            let mut set = Vec::new();
            for word in significant_words(&lower) {
                let number = numbers.get(word).copied().unwrap_or_else(|| {
                    let next = u32::try_from(counts.len()).unwrap_or(u32::MAX);
                    numbers.insert(word.to_owned(), next);
                    counts.push(0);
                    next
                });
                set.push(number);
            }
            set.sort_unstable();
            set.dedup();
            for &word in &set {
                counts[word as usize] += 1;
            }
            sets.push(set);
        }
        let mut order: Vec<u32> = (0..u32::try_from(counts.len()).unwrap_or(u32::MAX)).collect();
        // The first occurrence breaks ties, so that results do not depend on hash order.
        order.sort_by_key(|&word| (counts[word as usize], word));
        let mut rank = vec![0; counts.len()];
        let mut weights = vec![0.0; counts.len()];
        // The constant dampens small catalogs, in which every word is rare: there, all weigh about
        // the same.
        let total = f64::from(u32::try_from(skills.len()).unwrap_or(u32::MAX)) + 1_000.0;
        for (place, &word) in (0_u32..).zip(&order) {
            rank[word as usize] = place;
            weights[place as usize] = (1.0 + total / f64::from(counts[word as usize])).ln();
        }
        for set in &mut sets {
            for word in set.iter_mut() {
                *word = rank[*word as usize];
            }
            set.sort_unstable();
        }
        for number in numbers.values_mut() {
            *number = rank[*number as usize];
        }
        Self { numbers, sets, weights }
    }
}

/// Returns the words of a name that occur in any description.
fn known_words(name: &str, numbers: &HashMap<String, u32>) -> Vec<u32> {
    let lower = name.to_lowercase();
    significant_words(&lower).filter_map(|word| numbers.get(word).copied()).collect()
}

fn significant_words(lower: &str) -> impl Iterator<Item = &str> {
    let words = lower.split(|c: char| !c.is_alphanumeric());
    let significant =
        words.filter(|word| !word.is_empty() && STOP_WORDS.binary_search(word).is_err());
    significant.map(singular)
}

/// Strips a plural `s`: `bead` and `beads` are one word.
fn singular(word: &str) -> &str {
    match word.strip_suffix('s') {
        // `ss` is no plural, and stems such as `is` are too short to be sure.
        Some(stem) if stem.len() > 2 && !stem.ends_with('s') => stem,
        _ => word,
    }
}

fn total_weight(words: &[u32], weights: &[f64]) -> f64 {
    words.iter().map(|&word| weights[word as usize]).sum()
}

/// Returns the minimum weight that two overlapping sets share, slightly rounded down.
fn least_shared(left: f64, right: f64) -> f64 {
    // From shared / (left + right - shared) >= MIN_OVERLAP; the margin absorbs rounding.
    MIN_OVERLAP / (1.0 + MIN_OVERLAP) * (left + right) - 1e-6
}

/// Returns `true` if the words of `left` that `right` lacks weigh at most `slack`.
///
/// Rare words, which weigh most, come first, so that most sets are rejected after a few words.
fn could_overlap(left: &[u32], right: &[u32], weights: &[f64], mut slack: f64) -> bool {
    let mut right = right.iter().peekable();
    for word in left {
        while right.next_if(|other| *other < word).is_some() {}
        if right.next_if_eq(&word).is_none() {
            slack -= weights[*word as usize];
            if slack < 0.0 {
                return false;
            }
        }
    }
    true
}

/// Returns the rarest words of a set: two overlapping sets share at least one of them.
fn rarest<'a>(set: &'a [u32], weights: &[f64]) -> &'a [u32] {
    let total = total_weight(set, weights);
    let mut rest = total;
    let enough = set.iter().position(|&word| {
        let before = rest;
        rest -= weights[word as usize];
        // The rest alone is too light for an overlap.
        before < MIN_OVERLAP * total
    });
    &set[..enough.unwrap_or(set.len())]
}

/// Returns the shared weight of two sets as a part of their combined weight.
fn similarity(left: &[u32], right: &[u32], weights: &[f64]) -> f64 {
    let (mut shared, mut all) = (0.0, 0.0);
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        let (a, b) = (left.get(l), right.get(r));
        let word = match (a, b) {
            (Some(a), Some(b)) => *a.min(b),
            (Some(word), None) | (None, Some(word)) => *word,
            (None, None) => break,
        };
        let weight = weights[word as usize];
        all += weight;
        let (in_left, in_right) = (a == Some(&word), b == Some(&word));
        if in_left && in_right {
            shared += weight;
        }
        l += usize::from(in_left);
        r += usize::from(in_right);
    }
    if all > 0.0 { shared / all } else { 0.0 }
}

#[cfg(test)]
mod tests;
