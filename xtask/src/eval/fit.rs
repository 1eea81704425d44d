//! Weights of a linear ranker from labeled queries.
//!
//! The loss of one query is listwise: the cross-entropy between the labeled candidates and the
//! softmax of all candidates' scores. Features are divided by their standard deviation first, so
//! that one penalty on the squared weights fits all of them. The loss is convex; L-BFGS finds its
//! least value.

use std::collections::VecDeque;

/// Steps that the curvature is estimated from.
const MEMORY: usize = 10;
/// Steps at most.
const STEPS: usize = 500;
/// Ends the search: the largest slope that counts as flat.
const FLAT: f64 = 1e-7;

/// The candidates of one query.
#[derive(Debug, Clone)]
pub(super) struct TrainingExample {
    /// The candidates' features, one candidate after the other.
    pub(super) features: Vec<f64>,
    /// `true` for each labeled candidate.
    pub(super) relevant: Vec<bool>,
    /// The weight of the query.
    pub(super) weight: f64,
}

impl TrainingExample {
    /// Returns the candidates by score, best first; equal scores keep their order.
    pub(super) fn order(&self, weights: &[f64]) -> Vec<usize> {
        let scores: Vec<f64> = self.rows().map(|row| dot(row, weights)).collect();
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        order
    }

    fn width(&self) -> usize {
        self.features.len() / self.relevant.len().max(1)
    }

    fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.features.chunks(self.width().max(1))
    }

    /// Adds the loss and its slope. A query without a labeled candidate adds zero.
    fn add(&self, weights: &[f64], scores: &mut Vec<f64>, slope: &mut [f64]) -> f64 {
        let labeled = self.relevant.iter().filter(|&&relevant| relevant).count() as f64;
        if labeled == 0.0 {
            return 0.0;
        }
        scores.clear();
        scores.extend(self.rows().map(|row| dot(row, weights)));
        // Subtracting the largest score keeps `exp` from overflowing.
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|score| (score - most).exp()).sum();
        let mut loss = 0.0;
        for ((row, &score), &relevant) in self.rows().zip(scores.iter()).zip(&self.relevant) {
            let wanted = if relevant { 1.0 / labeled } else { 0.0 };
            let share = (score - most).exp() / sum;
            loss -= wanted * (score - most - sum.ln());
            let pull = self.weight * (share - wanted);
            for (slope, value) in slope.iter_mut().zip(row) {
                *slope += pull * value;
            }
        }
        self.weight * loss
    }
}

/// Fits weights; `l2` is the penalty on the squared weights of the scaled features, against a mean
/// loss per query.
pub(super) fn fit_weights(examples: &[&TrainingExample], l2: f64) -> Vec<f64> {
    let width = examples.iter().map(|example| example.width()).max().unwrap_or_default();
    let deviations = deviations(examples, width);
    let total: f64 = examples.iter().map(|example| example.weight).sum();
    let mut scores = Vec::new();
    let mut raw = vec![0.0; width];
    let scaled = minimize(vec![0.0; width], |weights: &[f64], slope: &mut [f64]| {
        let unscaled: Vec<f64> =
            weights.iter().zip(&deviations).map(|(weight, deviation)| weight / deviation).collect();
        raw.fill(0.0);
        let loss: f64 =
            examples.iter().map(|example| example.add(&unscaled, &mut scores, &mut raw)).sum();
        for (index, slope) in slope.iter_mut().enumerate() {
            *slope = raw[index] / deviations[index] / total + 2.0 * l2 * weights[index];
        }
        loss / total + l2 * dot(weights, weights)
    });
    scaled.iter().zip(&deviations).map(|(weight, deviation)| weight / deviation).collect()
}

/// Returns the standard deviation of every feature over all candidates; 1 for a constant feature.
fn deviations(examples: &[&TrainingExample], width: usize) -> Vec<f64> {
    let mut count = 0.0_f64;
    let mut sums = vec![(0.0_f64, 0.0_f64); width];
    for row in examples.iter().flat_map(|example| example.rows()) {
        count += 1.0;
        for ((sum, squares), value) in sums.iter_mut().zip(row) {
            *sum += value;
            *squares += value * value;
        }
    }
    sums.into_iter()
        .map(|(sum, squares)| {
            let mean = sum / count.max(1.0);
            let deviation = (squares / count.max(1.0) - mean * mean).max(0.0).sqrt();
            // A constant column has no deviation, by which no column can be divided.
            if deviation > 1e-9 { deviation } else { 1.0 }
        })
        .collect()
}

/// Finds where a convex function is least (L-BFGS, halving steps until they pay).
fn minimize(start: Vec<f64>, mut function: impl FnMut(&[f64], &mut [f64]) -> f64) -> Vec<f64> {
    let mut at = start;
    let mut slope = vec![0.0; at.len()];
    let mut value = function(&at, &mut slope);
    let mut past: VecDeque<(Vec<f64>, Vec<f64>)> = VecDeque::new();
    for _ in 0..STEPS {
        if slope.iter().all(|slope| slope.abs() < FLAT) {
            break;
        }
        let direction = descent_direction(&slope, &past);
        let fall = dot(&direction, &slope);
        let mut length =
            // Without any curvature yet, the first step has at most the length 1.
            if past.is_empty() { 1.0 / dot(&slope, &slope).sqrt().max(1.0) } else { 1.0 };
        let mut new_slope = vec![0.0; at.len()];
        let moved = loop {
            let new: Vec<f64> = at.iter().zip(&direction).map(|(at, d)| at + length * d).collect();
            let new_value = function(&new, &mut new_slope);
            // The Armijo condition: the step must lower the loss enough for its length.
            if new_value <= value + 1e-4 * length * fall {
                break Some((new, new_value));
            }
            length /= 2.0;
            if length < 1e-12 {
                break None;
            }
        };
        let Some((new, new_value)) = moved else { break };
        let step: Vec<f64> = new.iter().zip(&at).map(|(new, old)| new - old).collect();
        let bend: Vec<f64> = new_slope.iter().zip(&slope).map(|(new, old)| new - old).collect();
        // Only positive curvature keeps the approximation positive definite.
        if dot(&step, &bend) > 1e-14 {
            past.push_back((step, bend));
            if past.len() > MEMORY {
                past.pop_front();
            }
        }
        (at, slope, value) = (new, new_slope, new_value);
    }
    at
}

/// Returns the L-BFGS direction: the slope corrected by the curvature of past steps.
fn descent_direction(slope: &[f64], past: &VecDeque<(Vec<f64>, Vec<f64>)>) -> Vec<f64> {
    let mut direction: Vec<f64> = slope.iter().map(|slope| -slope).collect();
    let mut shares = Vec::with_capacity(past.len());
    for (step, bend) in past.iter().rev() {
        let share = dot(step, &direction) / dot(step, bend);
        add(&mut direction, -share, bend);
        shares.push(share);
    }
    if let Some((step, bend)) = past.back() {
        let scale = dot(step, bend) / dot(bend, bend);
        direction.iter_mut().for_each(|value| *value *= scale);
    }
    for ((step, bend), share) in past.iter().zip(shares.into_iter().rev()) {
        let other = dot(bend, &direction) / dot(step, bend);
        add(&mut direction, share - other, step);
    }
    direction
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f64], times: f64, what: &[f64]) {
    for (to, what) in to.iter_mut().zip(what) {
        *to += times * what;
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::SplitMix64;
    use super::*;

    /// Queries with five candidates each, of which the one that `teacher` scores highest is labeled.
    fn taught(teacher: &[f64], count: usize) -> Vec<TrainingExample> {
        let mut random = SplitMix64::new(3);
        (0..count)
            .map(|_| {
                let features: Vec<f64> =
                    (0..5 * teacher.len()).map(|_| random.below(1_000) as f64 / 1_000.0).collect();
                let scores: Vec<f64> =
                    features.chunks(teacher.len()).map(|row| dot(row, teacher)).collect();
                let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let relevant = scores.iter().map(|&score| score == best).collect();
                TrainingExample { features, relevant, weight: 1.0 }
            })
            .collect()
    }

    #[test]
    fn weights_recover_label_direction() {
        let teacher = [3.0, 0.0, -1.0];
        let examples = taught(&teacher, 300);
        let weights = fit_weights(&examples.iter().collect::<Vec<_>>(), 1e-3);
        let cosine =
            dot(&weights, &teacher) / (dot(&weights, &weights) * dot(&teacher, &teacher)).sqrt();
        assert!(cosine > 0.99, "{weights:?}");
    }

    #[test]
    fn penalty_shrinks_fitted_weights() {
        let examples = taught(&[1.0, 2.0], 100);
        let all: Vec<&TrainingExample> = examples.iter().collect();
        let size = |l2| {
            let weights = fit_weights(&all, l2);
            dot(&weights, &weights)
        };
        assert!(size(1e-1) < size(1e-2) && size(1e-2) < size(1e-3));
        // A parabola has its least value where its slope is zero.
        let found = minimize(vec![0.0, 0.0], |at, slope| {
            slope.copy_from_slice(&[2.0 * (at[0] - 3.0), 20.0 * (at[1] + 1.0)]);
            (at[0] - 3.0).powi(2) + 10.0 * (at[1] + 1.0).powi(2)
        });
        assert!((found[0] - 3.0).abs() < 1e-6 && (found[1] + 1.0).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn unlabeled_or_weightless_query_adds_zero() {
        let mut examples = taught(&[1.0, -2.0], 40);
        let before = fit_weights(&examples.iter().collect::<Vec<_>>(), 1e-2);
        let mut unlabeled = examples[0].clone();
        unlabeled.relevant.fill(false);
        unlabeled.weight = 0.0;
        examples.push(unlabeled);
        let after = fit_weights(&examples.iter().collect::<Vec<_>>(), 1e-2);
        for (before, after) in before.iter().zip(&after) {
            assert!((before - after).abs() < 0.05, "{before} {after}");
        }
    }
}
