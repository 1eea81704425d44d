//! The quality of a ranking.

use std::collections::HashSet;
use std::fmt;

use super::random::SplitMix64;

/// Re-drawn samples for an interval.
const DRAWS: usize = 1_000;

/// The measures of one query, or their means.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct RankingMetrics([f64; 6]);

impl RankingMetrics {
    /// The names of the numbers, in order.
    pub(super) const NAMES: [&str; 6] = ["R@1", "R@3", "R@5", "R@10", "MRR", "nDCG@10"];

    /// Measures one query: the share of its labeled skills in the first k (for k = 1 one suffices),
    /// the reciprocal rank of the first among 100, and binary nDCG at 10.
    pub(super) fn compute<S: AsRef<str>>(relevant: &[String], ranked: &[S]) -> Self {
        let labeled: HashSet<&str> = relevant.iter().map(String::as_str).collect();
        let fits = |id: &S| labeled.contains(id.as_ref());
        let share = |k: usize| {
            let found = ranked.iter().take(k).filter(|id| fits(id)).count();
            found as f64 / if k == 1 { labeled.len().min(1) } else { labeled.len() }.max(1) as f64
        };
        let gain = |rank: usize| 1.0 / (rank as f64 + 2.0).log2();
        let first = ranked.iter().take(100).position(fits);
        let found: f64 =
            (0..ranked.len().min(10)).filter(|&rank| fits(&ranked[rank])).map(gain).sum();
        let best: f64 = (0..labeled.len().min(10)).map(gain).sum();
        Self([
            share(1),
            share(3),
            share(5),
            share(10),
            first.map_or(0.0, |rank| 1.0 / (rank as f64 + 1.0)),
            if best > 0.0 { found / best } else { 0.0 },
        ])
    }

    /// Returns the means; zeros for an empty list.
    pub(super) fn mean<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let (mut sum, mut count) = ([0.0; 6], 0.0_f64);
        for Self(values) in all {
            count += 1.0;
            for (sum, value) in sum.iter_mut().zip(values) {
                *sum += value;
            }
        }
        Self(sum.map(|sum| sum / count.max(1.0)))
    }

    pub(super) fn values(&self) -> [f64; 6] {
        self.0
    }
}

impl fmt::Display for RankingMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in Self::NAMES.iter().zip(self.0) {
            write!(f, " {name} {value:.3}")?;
        }
        Ok(())
    }
}

/// The interval that holds 95 % of the means of samples drawn with replacement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ConfidenceInterval {
    pub(super) low: RankingMetrics,
    pub(super) high: RankingMetrics,
}

/// Returns the 95 % bootstrap interval of each mean. The seed is fixed, so that the same measures
/// give the same interval.
pub(super) fn bootstrap_interval(all: &[RankingMetrics]) -> ConfidenceInterval {
    let mut random = SplitMix64::new(17);
    let mut means: [Vec<f64>; 6] = Default::default();
    if !all.is_empty() {
        for _ in 0..DRAWS {
            let drawn: Vec<&RankingMetrics> =
                (0..all.len()).map(|_| &all[random.below(all.len())]).collect();
            for (means, value) in means.iter_mut().zip(RankingMetrics::mean(drawn).0) {
                means.push(value);
            }
        }
    }
    let at = |share: f64| {
        RankingMetrics(means.clone().map(|mut means| {
            means.sort_by(f64::total_cmp);
            means.get((share * means.len() as f64) as usize).copied().unwrap_or_default()
        }))
    };
    ConfidenceInterval { low: at(0.025), high: at(0.975) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(relevant: &[&str], ranked: &[&str]) -> [f64; 6] {
        let relevant: Vec<String> = relevant.iter().map(|&id| id.to_owned()).collect();
        RankingMetrics::compute(&relevant, ranked).values()
    }

    #[test]
    fn single_label_scores_by_rank() {
        assert_eq!(of(&["a"], &["a", "b"]), [1.0; 6]);
        assert_eq!(of(&["a"], &["b", "c"]), [0.0; 6]);
        assert_eq!(of(&["a"], &[]), [0.0; 6]);
        let fourth = 1.0 / 5.0_f64.log2();
        assert_eq!(of(&["a"], &["x", "y", "z", "a"]), [0.0, 0.0, 1.0, 1.0, 0.25, fourth]);
    }

    #[test]
    fn first_rank_needs_one_label() {
        let gain = (1.0 + 0.5) / (1.0 + 1.0 / 3.0_f64.log2());
        assert_eq!(of(&["a", "b"], &["a", "x", "b"]), [1.0, 1.0, 1.0, 1.0, 1.0, gain]);
        assert_eq!(of(&["a", "b"], &["x", "b"])[..2], [0.0, 0.5]);
    }

    #[test]
    fn interval_contains_mean_and_is_deterministic() {
        let all: Vec<RankingMetrics> =
            (0..200).map(|n| RankingMetrics([f64::from(n % 4 == 0); 6])).collect();
        let ConfidenceInterval { low, high } = bootstrap_interval(&all);
        let mean = RankingMetrics::mean(&all).values()[0];
        assert_eq!(mean, 0.25);
        // A quarter of 200 has a standard error of 0.031.
        for (low, high) in low.values().into_iter().zip(high.values()) {
            assert!((0.17..0.21).contains(&low), "{low}");
            assert!((0.29..0.33).contains(&high), "{high}");
        }
        assert_eq!(bootstrap_interval(&all), ConfidenceInterval { low, high });
        assert_eq!(
            bootstrap_interval(&[]),
            ConfidenceInterval { low: RankingMetrics::default(), high: RankingMetrics::default() }
        );
    }
}
