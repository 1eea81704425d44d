//! The report of a skill's runs with a model.

use serde::{Deserialize, Serialize};

use crate::benchmark::ComparisonArm;
use crate::case::CaseSplit;
use crate::grading::{AssertionResult, GradingFile, RunTiming, RunValidity};
use crate::paired_test::{ChangeVerdict, PairedCase, PairedReport};
use crate::statistics::{RateInterval, SampleSummary};

/// The report of a skill's runs with a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelReport {
    /// The skill.
    pub skill_id: String,
    /// The model, `provider/model`.
    pub model: String,
    /// The model that judged sentences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// The agent whose turns were run.
    pub agent: String,
    /// The seed of the order of runs.
    pub seed: u64,
    /// The version that the skill was compared with.
    pub baseline: ComparisonArm,
    /// The digests of the inputs.
    pub digests: ModelDigests,
    /// The directory with the results.
    pub directory: String,
    /// The cases, each once per arm.
    pub cases: Vec<ModelCaseReport>,
    /// The figures of the arms.
    pub arms: Vec<ArmFigures>,
    /// The part of the runs that read the skill, of those that were expected to.
    pub recall: Option<RateInterval>,
    /// The part of the runs that were expected to read the skill, of those that did.
    pub precision: Option<RateInterval>,
    /// The comparison of the arms; `None` without a prompt that both ran.
    pub comparison: Option<PairedReport>,
    /// Earlier iterations with the same cases, model and agent, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierIteration>,
    /// The amounts that were spent, by earlier processes, too.
    pub spent: SpentAmounts,
    /// The reason why the runs are not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Remarks about the harness.
    pub notes: Vec<String>,
}

/// The digests of the inputs of runs: results are comparable where they are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ModelDigests {
    /// The files of the tested version.
    pub skill: String,
    /// The files of the version that it was compared with, or `without`.
    pub baseline: String,
    /// The files of the cases.
    pub cases: String,
    /// The other skills of the catalog.
    pub catalog: String,
}

/// The result of a version of the skill in an earlier iteration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EarlierIteration {
    /// The number of the iteration.
    pub iteration: u32,
    /// The time of its end, as in RFC 3339.
    pub timestamp: String,
    /// The digest of the tested version.
    pub skill: String,
    /// The part of the valid runs of prompts that passed.
    pub passed: RateInterval,
}

/// The amounts that runs spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpentAmounts {
    /// The requests.
    pub requests: u64,
    /// The tokens in both directions.
    pub tokens: u64,
    /// The cost; `None` if the price of a model is not known.
    pub usd: Option<f64>,
}

/// The kind of a case that a model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelCaseKind {
    /// A prompt with assertions.
    Output,
    /// A query for which the skill is expected.
    Positive,
    /// A query for which it is not.
    Negative,
}

/// The runs of a case in one arm.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelCaseReport {
    /// The name of the case.
    pub case: String,
    /// The prompt or the query.
    pub text: String,
    /// The kind.
    pub kind: ModelCaseKind,
    /// The side of the split.
    pub split: CaseSplit,
    /// The arm.
    pub arm: ComparisonArm,
    /// The runs, in the order of their numbers.
    pub runs: Vec<ModelRunReport>,
    /// The part of the valid runs that passed; for a query, that read the skill.
    pub rate: Option<RateInterval>,
    /// The reason why the case failed; `None` if it passed, and in the baseline.
    pub failure: Option<ModelCaseFailure>,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelRunReport {
    /// The number, counted from 1.
    pub number: u32,
    /// The results.
    pub grading: GradingFile,
    /// The time and the tokens.
    pub timing: RunTiming,
}

/// The reason why a case failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelCaseFailure {
    /// Its rate is on the wrong side of the threshold.
    Rate,
    /// Assertions were skipped.
    Skipped,
    /// No run is valid.
    Invalid,
}

/// The figures of an arm.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArmFigures {
    /// The arm.
    pub arm: ComparisonArm,
    /// The part of the valid runs of prompts that passed.
    pub passed: Option<RateInterval>,
    /// The tokens of these runs.
    pub tokens: SampleSummary,
    /// The runs without a result, of prompts and queries.
    pub invalid: u32,
}

impl SpentAmounts {
    /// Adds the usage of one or several requests.
    pub fn add(&mut self, other: Self) {
        // A sum with one unknown part is not known.
        let is_first = self.requests == 0;
        self.usd = match (self.usd, other.usd) {
            (Some(before), Some(more)) => Some(before + more),
            (None, more) if is_first => more,
            _ => None,
        };
        self.requests = self.requests.saturating_add(other.requests);
        self.tokens = self.tokens.saturating_add(other.tokens);
    }
}

impl ModelRunReport {
    /// Returns whether its results count.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.grading.skillhost.outcome == RunValidity::Valid
    }

    /// Returns whether every checked assertion holds.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.is_valid() && self.grading.summary.failed == 0
    }

    fn skipped(&self) -> impl Iterator<Item = &AssertionResult> {
        self.grading.assertion_results.iter().filter(|result| result.passed.is_none())
    }
}

impl ModelCaseReport {
    /// Summarizes the runs of a case.
    #[must_use]
    pub fn new(
        (case, text): (String, String),
        kind: ModelCaseKind,
        split: CaseSplit,
        arm: ComparisonArm,
        runs: Vec<ModelRunReport>,
        threshold: f64,
    ) -> Self {
        let valid = || runs.iter().filter(|run| run.is_valid());
        let passed = |run: &&ModelRunReport| match kind {
            // The assertion of a negative query is that the skill is not read.
            ModelCaseKind::Negative => !run.passed(),
            ModelCaseKind::Output | ModelCaseKind::Positive => run.passed(),
        };
        let count = |found: usize| u32::try_from(found).unwrap_or(u32::MAX);
        let rate = RateInterval::from_counts(
            count(valid().filter(passed).count()),
            count(valid().count()),
        );
        // One skipped assertion leaves the case open even if all others hold.
        let is_skipped = runs.iter().any(|run| run.skipped().next().is_some());
        let is_enough = |rate: &RateInterval| match kind {
            ModelCaseKind::Negative => rate.rate < threshold,
            ModelCaseKind::Output | ModelCaseKind::Positive => rate.rate >= threshold,
        };
        let failure = match &rate {
            // The baseline is a measure, not a requirement.
            _ if arm != ComparisonArm::WithSkill => None,
            Some(rate) if !is_enough(rate) => Some(ModelCaseFailure::Rate),
            _ if is_skipped => Some(ModelCaseFailure::Skipped),
            None => Some(ModelCaseFailure::Invalid),
            Some(_) => None,
        };
        Self { case, text, kind, split, arm, runs, rate, failure }
    }

    /// Returns whether some valid runs passed and others did not.
    #[must_use]
    pub fn is_mixed(&self) -> bool {
        self.rate.is_some_and(|rate| 0 < rate.successes && rate.successes < rate.trials)
    }

    /// Returns the assertions of its runs that were skipped, each once.
    #[must_use]
    pub fn skipped_assertions(&self) -> Vec<&AssertionResult> {
        let mut skipped: Vec<&AssertionResult> = Vec::new();
        for result in self.runs.iter().flat_map(ModelRunReport::skipped) {
            // The same reason in each run is one line of a report.
            if !skipped.contains(&result) {
                skipped.push(result);
            }
        }
        skipped
    }

    fn invalid(&self) -> usize {
        self.runs.iter().filter(|run| run.grading.skillhost.outcome == RunValidity::Invalid).count()
    }
}

impl ArmFigures {
    /// Summarizes the cases of an arm.
    #[must_use]
    pub fn from_cases(arm: ComparisonArm, cases: &[ModelCaseReport]) -> Self {
        let own = || cases.iter().filter(|case| case.arm == arm);
        let prompts = || own().filter(|case| case.kind == ModelCaseKind::Output);
        let valid: Vec<&ModelRunReport> =
            prompts().flat_map(|case| &case.runs).filter(|run| run.is_valid()).collect();
        let count = |found: usize| u32::try_from(found).unwrap_or(u32::MAX);
        let passed = valid.iter().filter(|run| run.passed()).count();
        let tokens: Vec<f64> = valid.iter().map(|run| run.timing.total_tokens as f64).collect();
        Self {
            arm,
            passed: RateInterval::from_counts(count(passed), count(valid.len())),
            tokens: SampleSummary::from_values(&tokens),
            invalid: count(own().map(ModelCaseReport::invalid).sum()),
        }
    }
}

impl ModelReport {
    /// Calculates recall and precision of the queries of cases.
    #[must_use]
    pub fn trigger_rates(
        cases: &[ModelCaseReport],
    ) -> (Option<RateInterval>, Option<RateInterval>) {
        let sum = |kind: ModelCaseKind| {
            let tested = |case: &&ModelCaseReport| case.arm == ComparisonArm::WithSkill;
            let own = cases.iter().filter(tested).filter(|case| case.kind == kind);
            let rates = own.filter_map(|case| case.rate);
            rates.fold((0, 0), |(hits, all), rate| (hits + rate.successes, all + rate.trials))
        };
        // Queries with more runs count more, as each run is a trial.
        let (hits, expected) = sum(ModelCaseKind::Positive);
        let (wrong, _) = sum(ModelCaseKind::Negative);
        (RateInterval::from_counts(hits, expected), RateInterval::from_counts(hits, hits + wrong))
    }

    /// Pairs the valid runs of both arms, by the numbers of the runs. A query counts like a prompt:
    /// its run passes if the skill was read as expected.
    #[must_use]
    pub fn paired_cases(cases: &[ModelCaseReport]) -> Vec<PairedCase> {
        let new = cases.iter().filter(|case| case.arm == ComparisonArm::WithSkill);
        let paired = new.filter_map(|new| {
            // A query and a prompt can have the same name.
            let base = cases.iter().find(|base| {
                (&base.case, base.kind) == (&new.case, new.kind)
                    && base.arm != ComparisonArm::WithSkill
            })?;
            let rate = |run: &ModelRunReport| f64::from(u8::from(run.passed()));
            // Runs with the same number were made in the same part of the order.
            let pairs = new.runs.iter().filter_map(|run| {
                let other = base.runs.iter().find(|other| other.number == run.number)?;
                (run.is_valid() && other.is_valid()).then(|| (rate(other), rate(run)))
            });
            Some(PairedCase {
                is_held_out: new.split == CaseSplit::HeldOut,
                pairs: pairs.collect(),
            })
        });
        paired.collect()
    }

    /// Returns whether the skill is worse than its baseline, beyond the noise.
    #[must_use]
    pub fn falls_behind(&self) -> bool {
        let Some(report) = &self.comparison else { return false };
        let is_lower = report.train.is_worse() || report.held_out.is_worse();
        is_lower || report.verdict == Some(ChangeVerdict::Blocked)
    }

    /// Returns whether assertions were skipped, so that a difference between the arms may be hidden.
    #[must_use]
    pub fn has_skipped(&self) -> bool {
        let mut runs = self.cases.iter().flat_map(|case| &case.runs);
        runs.any(|run| run.skipped().next().is_some())
    }

    /// Returns whether the runs show nothing about the skill: none is valid, or they stopped.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        let runs = || self.cases.iter().flat_map(|case| &case.runs);
        let is_invalid =
            |run: &ModelRunReport| run.grading.skillhost.outcome == RunValidity::Invalid;
        self.stopped.is_some() || (runs().next().is_some() && runs().all(is_invalid))
    }

    /// Returns the cases that failed. Skipped assertions count unless they are allowed.
    pub fn failures(
        &self,
        allow_skipped: bool,
    ) -> impl Iterator<Item = (&ModelCaseReport, ModelCaseFailure)> {
        let counts = move |failure: &ModelCaseFailure| {
            !allow_skipped || *failure != ModelCaseFailure::Skipped
        };
        let all = self.cases.iter().filter_map(|case| Some((case, case.failure?)));
        all.filter(move |(_, failure)| counts(failure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grading::{ExecutionMetrics, RunProvenance};
    use crate::paired_test::assess_pairs;

    const WITH: ComparisonArm = ComparisonArm::WithSkill;
    const WITHOUT: ComparisonArm = ComparisonArm::WithoutSkill;

    fn run(number: u32, passed: Option<bool>, outcome: RunValidity) -> ModelRunReport {
        let results = vec![AssertionResult { text: "x".into(), passed, evidence: "y".into() }];
        let provenance = RunProvenance {
            skill: None,
            cases: String::new(),
            catalog: String::new(),
            model: "p/m".to_owned(),
            judge: None,
            seed: 0,
            outcome,
            reason: None,
        };
        let grading = GradingFile::new(results, ExecutionMetrics::default(), provenance);
        ModelRunReport { number, grading, timing: RunTiming::new(100, 10, None) }
    }

    fn case(kind: ModelCaseKind, arm: ComparisonArm, passed: &[bool]) -> ModelCaseReport {
        let runs = passed.iter().zip(1..);
        let runs = runs.map(|(passed, n)| run(n, Some(*passed), RunValidity::Valid)).collect();
        let names = ("q1".to_owned(), "Fill it in".to_owned());
        ModelCaseReport::new(names, kind, CaseSplit::Train, arm, runs, 0.5)
    }

    #[test]
    fn rates_decide_about_cases() {
        let failure = |kind, passed: &[bool]| case(kind, WITH, passed).failure;
        assert_eq!(failure(ModelCaseKind::Output, &[true, true, false]), None);
        let low = Some(ModelCaseFailure::Rate);
        assert_eq!(failure(ModelCaseKind::Output, &[true, false, false]), low);
        assert_eq!(failure(ModelCaseKind::Positive, &[false; 3]), low);
        // A negative query passes below the threshold, not at it.
        assert_eq!(failure(ModelCaseKind::Negative, &[true, true, false]), None);
        assert_eq!(failure(ModelCaseKind::Negative, &[true, false]), low);
        assert_eq!(case(ModelCaseKind::Output, WITHOUT, &[false; 3]).failure, None);
        assert!(case(ModelCaseKind::Output, WITH, &[true, false]).is_mixed());
    }

    #[test]
    fn invalid_and_skipped_runs_are_no_zeros() {
        let names = || ("q1".to_owned(), "x".to_owned());
        let make = |runs| {
            ModelCaseReport::new(names(), ModelCaseKind::Output, CaseSplit::Train, WITH, runs, 0.5)
        };
        let invalid = run(1, None, RunValidity::Invalid);
        let one_valid = make(vec![invalid, run(2, Some(true), RunValidity::Valid)]);
        assert_eq!(one_valid.rate.map(|rate| (rate.successes, rate.trials)), Some((1, 1)));
        let mut none = run(1, Some(false), RunValidity::Invalid);
        none.grading.assertion_results.clear();
        let none = make(vec![none]);
        assert_eq!((none.rate, none.failure), (None, Some(ModelCaseFailure::Invalid)));
        let skipped = make(vec![run(1, None, RunValidity::Ungraded)]);
        assert_eq!((skipped.rate, skipped.failure), (None, Some(ModelCaseFailure::Skipped)));
        assert_eq!(skipped.skipped_assertions().len(), 1);
        let figures = ArmFigures::from_cases(WITH, &[one_valid, skipped]);
        assert_eq!(figures.invalid, 1);
    }

    #[test]
    fn recall_and_precision_count_runs() {
        let cases = [
            case(ModelCaseKind::Positive, WITH, &[true, true, false]),
            // Two of these runs read the skill.
            case(ModelCaseKind::Negative, WITH, &[false, false, true]),
        ];
        let (recall, precision) = ModelReport::trigger_rates(&cases);
        assert_eq!(recall.map(|it| (it.successes, it.trials)), Some((2, 3)));
        assert_eq!(precision.map(|it| (it.successes, it.trials)), Some((2, 4)));
        // A baseline has queries where versions are compared; the rates are those of the skill.
        let mut both = cases.to_vec();
        both.push(case(ModelCaseKind::Positive, WITHOUT, &[false; 3]));
        assert_eq!(ModelReport::trigger_rates(&both), (recall, precision));
        assert_eq!(ModelReport::trigger_rates(&[]), (None, None));
    }

    #[test]
    fn arms_are_paired_by_number() {
        let mut base = case(ModelCaseKind::Output, WITHOUT, &[false, true, false]);
        base.runs[1].grading.skillhost.outcome = RunValidity::Invalid;
        let cases = [case(ModelCaseKind::Output, WITH, &[true, true, false]), base];
        let paired = ModelReport::paired_cases(&cases);
        assert_eq!(paired[0].pairs, [(0.0, 1.0), (0.0, 0.0)]);
        assert_eq!(assess_pairs(&paired, 3).verdict, Some(ChangeVerdict::Thin));
    }

    #[test]
    fn queries_are_paired_by_outcome() {
        // A run of a negative query passes if the skill is not read.
        let cases = [
            case(ModelCaseKind::Negative, WITH, &[true, false]),
            case(ModelCaseKind::Output, WITHOUT, &[false, false]),
            case(ModelCaseKind::Negative, WITHOUT, &[true, true]),
        ];
        let paired = ModelReport::paired_cases(&cases);
        assert_eq!(paired.len(), 1);
        assert_eq!(paired[0].pairs, [(1.0, 1.0), (1.0, 0.0)]);
    }

    #[test]
    fn unknown_cost_is_not_zero() {
        let one = |usd| SpentAmounts { requests: 1, tokens: 10, usd };
        let mut sum = SpentAmounts::default();
        sum.add(one(Some(0.5)));
        sum.add(one(Some(0.25)));
        assert_eq!((sum.requests, sum.tokens, sum.usd), (2, 20, Some(0.75)));
        sum.add(one(None));
        sum.add(one(Some(1.0)));
        assert_eq!(sum.usd, None);
    }
}
