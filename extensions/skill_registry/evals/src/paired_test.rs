//! The sequential test of a change: the same cases with the base and with the new version.
//!
//! After 3, 6 and 12 runs of each case the paired differences decide whether the change is worse,
//! better, or needs more runs. The limit of a gain is that of a test at about 1.4 % a look. That of a
//! loss is further away: a change that is neither better nor equal takes a person with a reason in any
//! case, and with two parts and three looks too many unchanged texts would be called worse.

use serde::{Deserialize, Serialize};

/// The runs of a case after which the differences are looked at.
pub const PAIRED_LOOKS: [usize; 3] = [3, 6, 12];

/// The value of z from which a gain counts.
const Z_GAIN: f64 = 2.2;

/// The value of z from which a loss counts.
const Z_LOSS: f64 = 2.5;

/// The value of z at the limits of an interval of 95 %.
const Z_95: f64 = 1.96;

/// The fewest held-out cases of a decision.
const MIN_HELD_OUT: usize = 8;

/// The fewest runs from which a case that always passed and never passes again counts by itself.
/// After three runs this is mostly chance.
const MIN_REVERSED_RUNS: usize = 6;

/// The runs of a case, in pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct PairedCase {
    /// Whether the authors of the change could not see the case.
    pub is_held_out: bool,
    /// The results with the base and with the new version, each from 0 to 1.
    pub pairs: Vec<(f64, f64)>,
}

/// The verdict on a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeVerdict {
    /// Worse: the change is refused.
    Blocked,
    /// Better on cases that its authors could not see.
    Better,
    /// No part is worse on average.
    NotLower,
    /// The average of a part is lower, within the noise.
    Unclear,
    /// Too few held-out cases for a verdict.
    Thin,
}

/// The figures of one part of the cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairedFigures {
    /// The cases.
    pub cases: usize,
    /// The pairs of runs.
    pub pairs: usize,
    /// The mean of the differences, new minus base.
    pub mean: f64,
    /// The half width of the interval of 95 % of the mean.
    pub error: f64,
    /// The sum of the differences by the root of the sum of their squares.
    pub z: f64,
}

/// The state of a test at a look.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairedReport {
    /// The verdict; `None` if more runs are needed.
    pub verdict: Option<ChangeVerdict>,
    /// The runs of a case so far.
    pub runs: usize,
    /// The cases that authors may see.
    pub train: PairedFigures,
    /// The other cases.
    pub held_out: PairedFigures,
    /// Cases that always passed and never pass now.
    pub reversed: usize,
}

impl ChangeVerdict {
    /// Returns its name in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Better => "better",
            Self::NotLower => "not lower",
            Self::Unclear => "unclear",
            Self::Thin => "thin",
        }
    }
}

impl PairedFigures {
    /// Calculates the figures of cases.
    #[must_use]
    pub fn from_cases<'a>(cases: impl Iterator<Item = &'a PairedCase>) -> Self {
        let (mut count, mut pairs, mut sum, mut squares) = (0, 0_usize, 0.0, 0.0);
        // A case without a valid pair says nothing about the change.
        for case in cases.filter(|case| !case.pairs.is_empty()) {
            count += 1;
            for (base, new) in &case.pairs {
                let difference = new - base;
                pairs += 1;
                sum += difference;
                squares += difference * difference;
            }
        }
        let by_pairs = |value: f64| if pairs == 0 { 0.0 } else { value / pairs as f64 };
        let (mean, root) = (by_pairs(sum), f64::sqrt(squares));
        // Without a difference there is no noise, and no evidence either.
        let z = if squares > 0.0 { sum / root } else { 0.0 };
        Self { cases: count, pairs, mean, error: by_pairs(Z_95 * root), z }
    }

    /// Returns whether the new version is worse, beyond the noise.
    #[must_use]
    pub fn is_worse(&self) -> bool {
        self.z <= -Z_LOSS
    }
}

/// Looks at the runs of a change. All cases have the same number of pairs, of which invalid ones are
/// left out.
#[must_use]
pub fn assess_pairs(cases: &[PairedCase], runs: usize) -> PairedReport {
    let train = PairedFigures::from_cases(cases.iter().filter(|case| !case.is_held_out));
    let held_out = PairedFigures::from_cases(cases.iter().filter(|case| case.is_held_out));
    let reversed = cases.iter().filter(|case| is_reversed(case)).count();
    // A fixed number of runs may be larger than the last look.
    let is_last = PAIRED_LOOKS.last().is_some_and(|last| runs >= *last);
    let verdict = if held_out.cases < MIN_HELD_OUT {
        Some(ChangeVerdict::Thin)
    } else if train.is_worse() || held_out.is_worse() || reversed > 0 {
        Some(ChangeVerdict::Blocked)
    // A gain that authors could not aim at; the visible cases alone prove none.
    } else if held_out.z >= Z_GAIN && train.mean >= 0.0 {
        Some(ChangeVerdict::Better)
    } else if !is_last {
        None
    } else if train.mean >= 0.0 && held_out.mean >= 0.0 {
        Some(ChangeVerdict::NotLower)
    } else {
        Some(ChangeVerdict::Unclear)
    };
    PairedReport { verdict, runs, train, held_out, reversed }
}

/// Returns whether a case passed in each run of the base and in none of the new version.
fn is_reversed(case: &PairedCase) -> bool {
    let (is_always, is_never) = (|it: &f64| *it >= 1.0, |it: &f64| *it <= 0.0);
    case.pairs.len() >= MIN_REVERSED_RUNS
        && case.pairs.iter().all(|(base, new)| is_always(base) && is_never(new))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::run_order::SeededNumbers;

    const SEEDS: u64 = 200;

    fn cases(train: usize, held_out: usize, pairs: &[(f64, f64)]) -> Vec<PairedCase> {
        let case = |is_held_out| PairedCase { is_held_out, pairs: pairs.to_vec() };
        let train = std::iter::repeat_n(case(false), train);
        train.chain(std::iter::repeat_n(case(true), held_out)).collect()
    }

    #[test]
    fn verdicts_follow_their_limits() {
        let verdict = |cases: &[PairedCase], runs| assess_pairs(cases, runs).verdict;
        let same = [(1.0, 1.0); 3];
        assert_eq!(verdict(&cases(12, 7, &same), 3), Some(ChangeVerdict::Thin));
        assert_eq!(verdict(&cases(12, 8, &same), 3), None);
        let mut unheard = cases(12, 0, &[(1.0, 1.0); 12]);
        unheard.extend(cases(0, 8, &[]));
        assert_eq!(verdict(&unheard, 12), Some(ChangeVerdict::Thin));
        assert_eq!(verdict(&cases(12, 8, &[(1.0, 1.0); 12]), 12), Some(ChangeVerdict::NotLower));
        assert_eq!(verdict(&cases(12, 8, &[(0.0, 1.0); 3]), 3), Some(ChangeVerdict::Better));
        assert_eq!(verdict(&cases(12, 8, &[(1.0, 0.0); 3]), 3), Some(ChangeVerdict::Blocked));
        // A gain that only the visible cases show is no gain.
        let mut visible = cases(12, 0, &[(0.0, 1.0); 12]);
        visible.extend(cases(0, 8, &[(1.0, 1.0); 12]));
        assert_eq!(verdict(&visible, 12), Some(ChangeVerdict::NotLower));
        // Five of six differences are a loss at z = 1.6, which may be noise.
        let mut lower = cases(12, 7, &[(1.0, 1.0); 12]);
        let mut pairs = vec![(1.0, 1.0); 6];
        pairs.extend([(1.0, 0.0), (1.0, 0.0), (1.0, 0.0), (1.0, 0.0), (1.0, 0.0), (0.0, 1.0)]);
        lower.push(PairedCase { is_held_out: true, pairs });
        assert_eq!(verdict(&lower, 12), Some(ChangeVerdict::Unclear));
    }

    #[test]
    fn reversed_case_blocks_from_six_runs() {
        let with = |runs| {
            let mut all = cases(12, 8, &vec![(0.0, 1.0); runs]);
            all[0].pairs = vec![(1.0, 0.0); runs];
            assess_pairs(&all, runs)
        };
        assert_eq!((with(3).reversed, with(3).verdict), (0, Some(ChangeVerdict::Better)));
        assert_eq!((with(6).reversed, with(6).verdict), (1, Some(ChangeVerdict::Blocked)));
    }

    /// A change of the pass rates, simulated with 12 visible and 8 held-out cases until a verdict.
    fn simulate(seed: u64, gain: f64) -> ChangeVerdict {
        let mut numbers = SeededNumbers::new(seed);
        // Beta(2.6, 1.4) has the mean .65.
        let rates: Vec<f64> = (0..20).map(|_| beta_number(&mut numbers, 2.6, 1.4)).collect();
        let mut all = cases(12, 8, &[]);
        let mut runs = 0;
        for look in PAIRED_LOOKS {
            while runs < look {
                runs += 1;
                for (case, rate) in all.iter_mut().zip(&rates) {
                    let mut passes = |rate: f64| f64::from(u8::from(numbers.next_unit() < rate));
                    let base = passes(*rate);
                    case.pairs.push((base, passes((rate + gain).clamp(0.0, 1.0))));
                }
            }
            if let Some(verdict) = assess_pairs(&all, runs).verdict {
                return verdict;
            }
        }
        panic!("the last look has a verdict")
    }

    /// A number of the beta distribution, by Jöhnk's algorithm.
    fn beta_number(numbers: &mut SeededNumbers, a: f64, b: f64) -> f64 {
        loop {
            let x = numbers.next_unit().powf(1.0 / a);
            let y = numbers.next_unit().powf(1.0 / b);
            if x + y <= 1.0 && x + y > 0.0 {
                return x / (x + y);
            }
        }
    }

    /// Returns the numbers of simulated changes that are blocked, better, unclear, and accepted without
    /// a reason, of 200.
    fn count_verdicts(gain: f64) -> [u32; 4] {
        let mut counts = [0; 4];
        for seed in 0..SEEDS {
            let at = match simulate(seed, gain) {
                ChangeVerdict::Blocked => 0,
                ChangeVerdict::Better => 1,
                ChangeVerdict::Unclear => 2,
                ChangeVerdict::NotLower | ChangeVerdict::Thin => 3,
            };
            counts[at] += 1;
        }
        counts[3] += counts[1];
        counts
    }

    #[test]
    fn simulated_changes_have_stated_rates() {
        // Good changes: all accepted. Small ones: 95 %.
        assert_eq!(count_verdicts(0.18), [0, 153, 0, 200]);
        assert_eq!(count_verdicts(0.09), [0, 54, 10, 190]);
        // Unchanged: 1.5 % are blocked, 1 % better, 67.5 % unclear.
        assert_eq!(count_verdicts(0.0), [3, 2, 135, 62]);
        // Worse: none is accepted without a reason.
        assert_eq!(count_verdicts(-0.09), [67, 0, 133, 0]);
        assert_eq!(count_verdicts(-0.18), [193, 0, 7, 0]);
    }

    proptest! {
        #[test]
        fn reversed_roles_mirror_figures(
            pairs in proptest::collection::vec((0_u8..2, 0_u8..2), 1..40),
        ) {
            let to_pair = |&(base, new): &(u8, u8)| (f64::from(base), f64::from(new));
            let case = PairedCase { is_held_out: true, pairs: pairs.iter().map(to_pair).collect() };
            let swapped = PairedCase {
                pairs: case.pairs.iter().map(|(base, new)| (*new, *base)).collect(),
                ..case.clone()
            };
            let (one, other) = (
                PairedFigures::from_cases([&case].into_iter()),
                PairedFigures::from_cases([&swapped].into_iter()),
            );
            prop_assert!((one.z + other.z).abs() < 1e-9 && (one.mean + other.mean).abs() < 1e-9);
            prop_assert!(one.z.abs() <= (pairs.len() as f64).sqrt() + 1e-9);
        }

        #[test]
        fn better_needs_gain_of_hidden_cases(
            pairs in proptest::collection::vec((0_u8..2, 0_u8..2), 12),
        ) {
            let to_pair = |&(base, new): &(u8, u8)| (f64::from(base), f64::from(new));
            let pairs: Vec<_> = pairs.iter().map(to_pair).collect();
            let report = assess_pairs(&cases(12, 8, &pairs), 12);
            if report.verdict == Some(ChangeVerdict::Better) {
                prop_assert!(report.held_out.mean > 0.0 && report.train.mean >= 0.0);
            }
            // Runs that are identical are never better or worse.
            let same: Vec<_> = pairs.iter().map(|(base, _)| (*base, *base)).collect();
            let report = assess_pairs(&cases(12, 8, &same), 12);
            prop_assert_eq!(report.verdict, Some(ChangeVerdict::NotLower));
        }
    }
}
