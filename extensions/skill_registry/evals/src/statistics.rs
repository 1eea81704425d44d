//! Rates with their intervals, and the sample statistics of reports.

use serde::{Deserialize, Serialize};

/// The quantile of an interval with a level of 95 %.
const Z_95: f64 = 1.959_964;

/// A rate of successes with the interval that has its true value with a probability of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateInterval {
    /// The successes.
    pub successes: u32,
    /// The trials.
    pub trials: u32,
    /// The part of the trials that succeeded.
    pub rate: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

impl RateInterval {
    /// Calculates the Wilson interval; `None` without a trial.
    ///
    /// It is valid for few trials and for rates near 0 and 1, where the normal interval is not.
    #[must_use]
    pub fn from_counts(successes: u32, trials: u32) -> Option<Self> {
        if trials == 0 {
            return None;
        }
        // A rate above 1 has no root below.
        let successes = successes.min(trials);
        let count = f64::from(trials);
        let rate = f64::from(successes) / count;
        let square = Z_95 * Z_95;
        let scale = 1.0 + square / count;
        let center = (rate + square / (2.0 * count)) / scale;
        let variance = rate * (1.0 - rate) / count + square / (4.0 * count * count);
        let half = Z_95 * variance.sqrt() / scale;
        // Rounding may move a bound past the rate at 0 and 1, where they are equal.
        let (low, high) = ((center - half).clamp(0.0, rate), (center + half).clamp(rate, 1.0));
        Some(Self { successes, trials, rate, low, high })
    }
}

/// The statistics of a sample, in the form of skill-creator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SampleSummary {
    /// The mean.
    pub mean: f64,
    /// The standard deviation of the sample; 0 for fewer than two values.
    pub stddev: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

impl SampleSummary {
    /// Summarizes values, each rounded to four digits; zeros without a value.
    #[must_use]
    pub fn from_values(values: &[f64]) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        // That of a sample: a single value has no spread.
        let stddev = if values.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let [mean, stddev, min, max] = [mean, stddev, min, max].map(round_digits);
        Self { mean, stddev, min, max }
    }
}

/// Rounds to four digits, so that reports do not depend on the order of additions.
pub(crate) fn round_digits(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn wilson_intervals_equal_published_ones() {
        // Newcombe 1998, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
        let published = [
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (0, 20, 0.0, 0.1611),
            (1, 29, 0.0061, 0.1718),
        ];
        for (successes, trials, low, high) in published {
            let interval = RateInterval::from_counts(successes, trials).unwrap();
            assert!((interval.low - low).abs() < 6e-5, "{interval:?}");
            assert!((interval.high - high).abs() < 6e-5, "{interval:?}");
        }
        assert_eq!(RateInterval::from_counts(0, 0), None);
    }

    #[test]
    fn sample_statistics_equal_those_of_guide() {
        let summary = SampleSummary::from_values(&[0.5, 1.0, 0.75]);
        assert_eq!(summary, SampleSummary { mean: 0.75, stddev: 0.25, min: 0.5, max: 1.0 });
        assert_eq!(SampleSummary::from_values(&[]), SampleSummary::default());
        assert_eq!(SampleSummary::from_values(&[2.0]).stddev, 0.0);
    }

    proptest! {
        #[test]
        fn interval_contains_rate_and_narrows(successes in 0_u32..500, more in 0_u32..500) {
            let trials = successes + more + 1;
            let interval = RateInterval::from_counts(successes, trials).unwrap();
            prop_assert!(0.0 <= interval.low && interval.low <= interval.rate);
            prop_assert!(interval.rate <= interval.high && interval.high <= 1.0);
            let larger = RateInterval::from_counts(successes * 4, trials * 4).unwrap();
            prop_assert!(larger.high - larger.low < interval.high - interval.low);
            // The failures have the mirrored interval.
            let mirrored = RateInterval::from_counts(trials - successes, trials).unwrap();
            prop_assert!((mirrored.low - (1.0 - interval.high)).abs() < 1e-9);
        }
    }
}
