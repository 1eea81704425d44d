//! Descriptions that say the same, without comparing each with each.
//!
//! Every description becomes a set of words, weighted by how rare they are in the catalog. Two are
//! alike if the weight they share is most of the weight they have together. Such two must share
//! one of their rarest words, so that only those lists are looked through.

use std::collections::HashMap;

use super::CatalogSkill;

/// The part of the weight that two descriptions share when they are reported.
const ALIKE: f64 = 0.62;

/// Descriptions with fewer words are too short to tell.
const FEWEST_WORDS: usize = 5;

/// How many skills with a word are compared at most. Where more share one of their rarest words,
/// they are made by one template, and the first ones stand for all.
const MOST_COMPARED: usize = 64;

/// Words of the form of descriptions rather than of what skills do.
const STOP: [&str; 58] = [
    "a", "an", "the", "and", "or", "of", "to", "in", "on", "for", "with", "by", "from", "as", "at",
    "is", "are", "be", "it", "its", "this", "that", "these", "those", "into", "via", "use", "uses",
    "used", "using", "when", "whenever", "user", "users", "ask", "asks", "asking", "about",
    "skill", "skills", "you", "your", "need", "needs", "want", "wants", "should", "also", "any",
    "such", "not", "their", "they", "if", "how", "what", "which", "will",
];

/// Two skills whose descriptions are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Overlap {
    /// The later skill.
    pub(super) index: usize,
    /// The earlier skill it is most like.
    pub(super) other: usize,
    /// How much they share, in percent.
    pub(super) percent: u32,
    /// Whether they have the same words.
    pub(super) same: bool,
}

/// Finds, for every skill, the earlier one whose description is most like its own.
pub(super) fn find(skills: &[CatalogSkill]) -> Vec<Overlap> {
    let (sets, weights) = word_sets(skills);
    let mut found = Vec::new();
    let mut first_of: HashMap<&[u32], usize> = HashMap::with_capacity(sets.len());
    let mut by_word: Vec<Vec<usize>> = vec![Vec::new(); weights.len()];
    let mut compared_with = vec![usize::MAX; sets.len()];
    for (index, set) in sets.iter().enumerate() {
        if set.len() < FEWEST_WORDS {
            continue;
        }
        let first = *first_of.entry(set).or_insert(index);
        if first != index {
            found.push(Overlap { index, other: first, percent: 100, same: true });
            continue;
        }
        let mut best: Option<(f64, usize)> = None;
        for &word in rarest(set, &weights) {
            for &other in by_word[word as usize].iter().take(MOST_COMPARED) {
                if compared_with[other] == index {
                    continue;
                }
                compared_with[other] = index;
                let shared = likeness(set, &sets[other], &weights);
                if shared >= ALIKE && best.is_none_or(|(most, _)| shared > most) {
                    best = Some((shared, other));
                }
            }
            by_word[word as usize].push(index);
        }
        if let Some((shared, other)) = best {
            found.push(Overlap { index, other, percent: percent(shared), same: false });
        }
    }
    found
}

fn percent(part: f64) -> u32 {
    let mut percent = 0;
    while percent < 99 && f64::from(percent + 1) <= part * 100.0 {
        percent += 1;
    }
    percent
}

/// Makes a description's words numbers that rise with how common a word is, each set in rising
/// order, and weighs the words.
fn word_sets(skills: &[CatalogSkill]) -> (Vec<Vec<u32>>, Vec<f64>) {
    let mut numbers: HashMap<String, u32> = HashMap::new();
    let mut counts: Vec<u32> = Vec::new();
    let mut sets: Vec<Vec<u32>> = Vec::with_capacity(skills.len());
    for skill in skills {
        let lower = skill.description.0.to_lowercase();
        let mut set: Vec<u32> = lower
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty() && !STOP.contains(word))
            .map(|word| {
                let next = u32::try_from(counts.len()).unwrap_or(u32::MAX);
                match numbers.get(singular(word)) {
                    Some(&number) => number,
                    None => {
                        numbers.insert(singular(word).to_owned(), next);
                        counts.push(0);
                        next
                    }
                }
            })
            .collect();
        set.sort_unstable();
        set.dedup();
        for &word in &set {
            counts[word as usize] += 1;
        }
        sets.push(set);
    }
    let mut order: Vec<u32> = (0..u32::try_from(counts.len()).unwrap_or(u32::MAX)).collect();
    order.sort_by_key(|&word| (counts[word as usize], word));
    let mut rank = vec![0; counts.len()];
    let mut weights = vec![0.0; counts.len()];
    // In a small catalog every word is rare; there, all weigh about the same.
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
    (sets, weights)
}

/// Takes the `s` off: `bead` and `beads` are one word.
fn singular(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(stem) if stem.len() > 2 && !stem.ends_with('s') => stem,
        _ => word,
    }
}

/// Returns the rarest words of a set: two sets that are alike share one of them.
fn rarest<'a>(set: &'a [u32], weights: &[f64]) -> &'a [u32] {
    let weigh = |words: &[u32]| words.iter().map(|&word| weights[word as usize]).sum::<f64>();
    let total = weigh(set);
    let mut rest = total;
    let enough = set.iter().position(|&word| {
        let before = rest;
        rest -= weights[word as usize];
        before < ALIKE * total
    });
    &set[..enough.unwrap_or(set.len())]
}

/// Returns the shared part of the weight of two sets.
fn likeness(left: &[u32], right: &[u32], weights: &[f64]) -> f64 {
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
