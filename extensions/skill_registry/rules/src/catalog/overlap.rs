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

/// Words of the form of descriptions rather than of what skills do, sorted.
const STOP: [&str; 58] = [
    "a", "about", "also", "an", "and", "any", "are", "as", "ask", "asking", "asks", "at", "be",
    "by", "for", "from", "how", "if", "in", "into", "is", "it", "its", "need", "needs", "not",
    "of", "on", "or", "should", "skill", "skills", "such", "that", "the", "their", "these", "they",
    "this", "those", "to", "use", "used", "user", "users", "uses", "using", "via", "want", "wants",
    "what", "when", "whenever", "which", "will", "with", "you", "your",
];

/// Two skills whose descriptions are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DescriptionOverlap {
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
pub(super) fn find_overlaps(skills: &[CatalogSkill]) -> Vec<DescriptionOverlap> {
    let WordIndex { numbers, sets, weights } = WordIndex::read(skills);
    let names: Vec<Vec<u32>> =
        skills.iter().map(|skill| known_words(&skill.id, &numbers)).collect();
    // A word of its own name that stands in a description and not in the other tells the two apart.
    let is_told = |one: usize, other: usize| {
        let own = |word: &u32| sets[one].binary_search(word).is_ok();
        names[one].iter().any(|word| own(word) && sets[other].binary_search(word).is_err())
    };
    // Of one family, such as `x-automation` and `y-automation`, one that is named apart is enough.
    let are_told = |one: usize, other: usize| {
        let family = names[one].iter().any(|word| names[other].contains(word));
        let (this, that) = (is_told(one, other), is_told(other, one));
        (this && that) || (family && (this || that))
    };
    let mut found = Vec::new();
    let mut first_of: HashMap<&[u32], usize> = HashMap::with_capacity(sets.len());
    let mut by_word: Vec<Vec<usize>> = vec![Vec::new(); weights.len()];
    let mut compared_with = vec![usize::MAX; sets.len()];
    let totals: Vec<f64> = sets.iter().map(|set| weigh(set, &weights)).collect();
    for (index, set) in sets.iter().enumerate() {
        if set.len() < FEWEST_WORDS {
            continue;
        }
        let first = *first_of.entry(set).or_insert(index);
        if first != index {
            found.push(DescriptionOverlap { index, other: first, percent: 100, same: true });
            continue;
        }
        let mut best: Option<(f64, usize)> = None;
        for &word in rarest(set, &weights) {
            for &other in by_word[word as usize].iter().take(MOST_COMPARED) {
                if compared_with[other] == index {
                    continue;
                }
                compared_with[other] = index;
                let least = least_shared(totals[index], totals[other]);
                if !could_overlap(set, &sets[other], &weights, totals[index] - least) {
                    continue;
                }
                let shared = similarity(set, &sets[other], &weights);
                let better = shared >= ALIKE && best.is_none_or(|(most, _)| shared > most);
                if better && !are_told(index, other) {
                    best = Some((shared, other));
                }
            }
            by_word[word as usize].push(index);
        }
        if let Some((shared, other)) = best {
            found.push(DescriptionOverlap { index, other, percent: percent(shared), same: false });
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

/// The words of all descriptions as numbers that rise with how common a word is.
struct WordIndex {
    numbers: HashMap<String, u32>,
    /// The words of each description in rising order.
    sets: Vec<Vec<u32>>,
    /// How much each word weighs.
    weights: Vec<f64>,
}

impl WordIndex {
    fn read(skills: &[CatalogSkill]) -> Self {
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let mut counts: Vec<u32> = Vec::new();
        let mut sets: Vec<Vec<u32>> = Vec::with_capacity(skills.len());
        for skill in skills {
            let lower = skill.description.0.to_lowercase();
            let mut set = Vec::new();
            for word in words_of(&lower) {
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
        for number in numbers.values_mut() {
            *number = rank[*number as usize];
        }
        Self { numbers, sets, weights }
    }
}

/// Returns the words of a name that stand in any description.
fn known_words(name: &str, numbers: &HashMap<String, u32>) -> Vec<u32> {
    let lower = name.to_lowercase();
    words_of(&lower).filter_map(|word| numbers.get(word).copied()).collect()
}

fn words_of(lower: &str) -> impl Iterator<Item = &str> {
    let words = lower.split(|c: char| !c.is_alphanumeric());
    let telling = words.filter(|word| !word.is_empty() && STOP.binary_search(word).is_err());
    telling.map(singular)
}

/// Takes the `s` off: `bead` and `beads` are one word.
fn singular(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(stem) if stem.len() > 2 && !stem.ends_with('s') => stem,
        _ => word,
    }
}

fn weigh(words: &[u32], weights: &[f64]) -> f64 {
    words.iter().map(|&word| weights[word as usize]).sum()
}

/// Returns the weight that two sets which are alike share at least, a little rounded down.
fn least_shared(left: f64, right: f64) -> f64 {
    ALIKE / (1.0 + ALIKE) * (left + right) - 1e-6
}

/// Tells whether `right` lacks words of `left` that weigh at most so much. The rare words, which
/// weigh most, come first, so that for most sets that is known after a few of them.
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

/// Returns the rarest words of a set: two sets that are alike share one of them.
fn rarest<'a>(set: &'a [u32], weights: &[f64]) -> &'a [u32] {
    let total = weigh(set, weights);
    let mut rest = total;
    let enough = set.iter().position(|&word| {
        let before = rest;
        rest -= weights[word as usize];
        before < ALIKE * total
    });
    &set[..enough.unwrap_or(set.len())]
}

/// Returns the shared part of the weight of two sets.
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
mod tests {
    use skill_format::Span;

    use super::*;

    fn skills(descriptions: &[(&str, &str)]) -> Vec<CatalogSkill> {
        let skill = |&(id, description): &(&str, &str)| CatalogSkill {
            id: id.to_owned(),
            description: (description.to_owned(), Span::default()),
            ..CatalogSkill::default()
        };
        descriptions.iter().map(skill).collect()
    }

    fn pairs(descriptions: &[(&str, &str)]) -> Vec<(usize, usize, bool)> {
        let found = find_overlaps(&skills(descriptions));
        found.iter().map(|it| (it.index, it.other, it.same)).collect()
    }

    #[test]
    fn stop_words_are_sorted() {
        assert!(STOP.is_sorted());
    }

    #[test]
    fn the_later_of_two_alike_is_found() {
        let found = pairs(&[
            ("a", "Counts glass beads in a jar and reports the total per colour."),
            ("b", "Sorts wooden beads by size into trays and labels every tray."),
            ("c", "Counts the glass beads in jars, reports a total per colour today."),
            ("d", "A total per colour of glass beads: counts jar reports."),
        ]);
        assert_eq!(found, [(2, 0, false), (3, 0, true)]);
    }

    #[test]
    fn short_descriptions_and_other_ones_are_left_alone() {
        assert_eq!(pairs(&[("a", "Counts beads."), ("b", "Counts beads.")]), []);
        let one = "Reviews Go code for races, leaks and errors that are dropped on the floor.";
        let other = "Plans a garden by month, with seeds, soil, water and light for each bed.";
        assert_eq!(pairs(&[("a", one), ("b", other)]), []);
    }

    #[test]
    fn a_word_of_the_name_tells_two_of_one_template_apart() {
        let of = |what: &str| {
            format!("Automates {what} tasks through the gateway; searches tools for schemas first.")
        };
        let (mezmo, mapbox) = (of("Mezmo"), of("Mapbox"));
        let told = [("mezmo-automation", &*mezmo), ("mapbox-automation", &*mapbox)];
        assert_eq!(pairs(&told), []);
        let general = of("gateway");
        let family = [("gateway-tools", &*general), ("mezmo-tools", &*mezmo)];
        assert_eq!(pairs(&family), []);
        assert_eq!(pairs(&[("gateway", &*general), ("mezmo", &*mezmo)]), [(1, 0, false)]);
        assert_eq!(pairs(&[("one", &mezmo), ("two", &mapbox)]), [(1, 0, false)]);
    }

    #[test]
    fn of_a_catalog_of_one_template_the_first_ones_stand_for_all() {
        let template: Vec<_> = (0..30).map(|word| format!("word{word}")).collect();
        let template = template.join(" ");
        let texts: Vec<_> = (0..200).map(|n| format!("{template} number{n}")).collect();
        let list: Vec<_> = texts.iter().map(|text| ("x", &**text)).collect();
        let found = find_overlaps(&skills(&list));
        assert_eq!(found.len(), 199);
        assert!(found.iter().all(|it| it.other < MOST_COMPARED && !it.same));
    }

    #[test]
    fn every_pair_that_is_alike_shares_one_of_its_rarest_words() {
        let texts = [
            "alpha beta gamma delta epsilon zeta eta theta",
            "alpha beta gamma delta epsilon zeta eta iota",
            "kappa beta gamma delta epsilon zeta eta theta",
            "alpha beta gamma delta epsilon nu xi omicron",
        ];
        let list: Vec<_> = texts.iter().map(|text| ("x", *text)).collect();
        let WordIndex { sets, weights, .. } = WordIndex::read(&skills(&list));
        for (index, set) in sets.iter().enumerate() {
            for other in &sets[..index] {
                let alike = similarity(set, other, &weights) >= ALIKE;
                let (one, two) = (weigh(set, &weights), weigh(other, &weights));
                let slack = one - least_shared(one, two);
                assert!(!alike || could_overlap(set, other, &weights, slack), "{index}");
                let first = rarest(set, &weights);
                let shares = rarest(other, &weights).iter().any(|word| first.contains(word));
                assert!(!alike || shares, "{index}");
            }
        }
    }
}
