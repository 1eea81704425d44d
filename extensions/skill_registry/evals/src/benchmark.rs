//! The file `benchmark.json`: all runs of an iteration with their summary, as skill-creator has it.

use serde::{Deserialize, Serialize};

use crate::grading::{AssertionResult, GradingFile, RunTiming};
use crate::statistics::SampleSummary;

/// The versions of a skill that a comparison runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonArm {
    /// The skill as it is tested.
    WithSkill,
    /// No such skill.
    WithoutSkill,
    /// Another version of the skill.
    OldSkill,
}

/// The file `benchmark.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkFile {
    /// The circumstances.
    pub metadata: BenchmarkMetadata,
    /// The valid runs.
    pub runs: Vec<BenchmarkRun>,
    /// The statistics of each arm.
    pub run_summary: BenchmarkSummary,
    /// Remarks, such as the number of invalid runs.
    pub notes: Vec<String>,
}

/// The circumstances of a benchmark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BenchmarkMetadata {
    /// The skill.
    pub skill_name: String,
    /// Its directory.
    pub skill_path: String,
    /// The tested model.
    pub executor_model: String,
    /// The model that judged; empty without one.
    pub analyzer_model: String,
    /// The time of the end, as in RFC 3339.
    pub timestamp: String,
    /// The cases.
    pub evals_run: Vec<String>,
    /// The planned runs of a case and arm.
    pub runs_per_configuration: u32,
}

/// A run in a benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkRun {
    /// The case.
    pub eval_id: String,
    /// The arm.
    pub configuration: ComparisonArm,
    /// The number of the run, counted from 1.
    pub run_number: u32,
    /// The figures.
    pub result: BenchmarkResult,
    /// The results of the assertions.
    pub expectations: Vec<AssertionResult>,
    /// Remarks.
    pub notes: Vec<String>,
}

/// The figures of a run in a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkResult {
    /// The part of the checked assertions that hold.
    pub pass_rate: f64,
    /// Assertions that hold.
    pub passed: u32,
    /// Assertions that do not hold.
    pub failed: u32,
    /// All assertions.
    pub total: u32,
    /// The duration.
    pub time_seconds: f64,
    /// The tokens in both directions.
    pub tokens: u64,
    /// The tool calls.
    pub tool_calls: u32,
    /// The tool calls that failed.
    pub errors: u32,
}

/// The statistics of the arms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkSummary {
    /// The skill as it is tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_skill: Option<ArmSummary>,
    /// No such skill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_skill: Option<ArmSummary>,
    /// Another version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_skill: Option<ArmSummary>,
    /// The difference of the first arm from the other one.
    pub delta: ArmDelta,
}

/// The statistics of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmSummary {
    /// The pass rates of its runs.
    pub pass_rate: SampleSummary,
    /// Their durations.
    pub time_seconds: SampleSummary,
    /// Their tokens.
    pub tokens: SampleSummary,
}

/// Differences of means, as signed texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArmDelta {
    /// Of the pass rates.
    pub pass_rate: String,
    /// Of the durations.
    pub time_seconds: String,
    /// Of the tokens.
    pub tokens: String,
}

impl ComparisonArm {
    /// Returns its name in paths and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WithSkill => "with_skill",
            Self::WithoutSkill => "without_skill",
            Self::OldSkill => "old_skill",
        }
    }
}

impl BenchmarkResult {
    /// Creates the figures of a run.
    #[must_use]
    pub fn new(grading: &GradingFile, timing: &RunTiming) -> Self {
        let (summary, metrics) = (grading.summary, grading.execution_metrics);
        Self {
            pass_rate: summary.pass_rate,
            passed: summary.passed,
            failed: summary.failed,
            total: summary.total,
            time_seconds: timing.total_duration_seconds,
            tokens: timing.total_tokens,
            tool_calls: metrics.total_tool_calls,
            errors: metrics.errors_encountered,
        }
    }
}

impl BenchmarkSummary {
    /// Summarizes runs.
    #[must_use]
    pub fn from_runs(runs: &[BenchmarkRun]) -> Self {
        let with_skill = summarize_arm(runs, ComparisonArm::WithSkill);
        let without_skill = summarize_arm(runs, ComparisonArm::WithoutSkill);
        let old_skill = summarize_arm(runs, ComparisonArm::OldSkill);
        // A benchmark has one baseline: a home without the skill, or another version.
        let delta = match (with_skill, without_skill.or(old_skill)) {
            (Some(with), Some(base)) => ArmDelta {
                pass_rate: format!("{:+.2}", with.pass_rate.mean - base.pass_rate.mean),
                time_seconds: format!("{:+.1}", with.time_seconds.mean - base.time_seconds.mean),
                tokens: format!("{:+.0}", with.tokens.mean - base.tokens.mean),
            },
            _ => ArmDelta::default(),
        };
        Self { with_skill, without_skill, old_skill, delta }
    }
}

fn summarize_arm(runs: &[BenchmarkRun], arm: ComparisonArm) -> Option<ArmSummary> {
    let own: Vec<&BenchmarkResult> =
        runs.iter().filter(|run| run.configuration == arm).map(|run| &run.result).collect();
    // An arm without a valid run has no mean, and a zero would be read as one.
    if own.is_empty() {
        return None;
    }
    let summarize = |value: &dyn Fn(&BenchmarkResult) -> f64| {
        let values: Vec<f64> = own.iter().map(|run| value(run)).collect();
        SampleSummary::from_values(&values)
    };
    Some(ArmSummary {
        pass_rate: summarize(&|run| run.pass_rate),
        time_seconds: summarize(&|run| run.time_seconds),
        // Exact up to 2^53 tokens.
        tokens: summarize(&|run| run.tokens as f64),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::grading::{ExecutionMetrics, RunProvenance, RunValidity};

    fn run(arm: ComparisonArm, number: u32, passed: bool, tokens: u64) -> BenchmarkRun {
        let results = vec![AssertionResult::checked("x", passed, "y")];
        let metrics = ExecutionMetrics { total_tool_calls: 2, errors_encountered: 0 };
        let provenance = RunProvenance {
            skill: None,
            cases: String::new(),
            catalog: String::new(),
            model: String::new(),
            judge: None,
            seed: 0,
            outcome: RunValidity::Valid,
            reason: None,
        };
        let grading = GradingFile::new(results.clone(), metrics, provenance);
        let timing = RunTiming::new(tokens, 1_500, None);
        BenchmarkRun {
            eval_id: "q1".to_owned(),
            configuration: arm,
            run_number: number,
            result: BenchmarkResult::new(&grading, &timing),
            expectations: results,
            notes: Vec::new(),
        }
    }

    #[test]
    fn benchmark_file_has_form_of_skill_creator() {
        let runs = vec![
            run(ComparisonArm::WithSkill, 1, true, 900),
            run(ComparisonArm::WithoutSkill, 1, false, 500),
        ];
        let run_summary = BenchmarkSummary::from_runs(&runs);
        let metadata = BenchmarkMetadata {
            skill_name: "forms".to_owned(),
            skill_path: "skills/forms".to_owned(),
            executor_model: "p/m".to_owned(),
            analyzer_model: String::new(),
            timestamp: "2026-01-15T10:30:00Z".to_owned(),
            evals_run: vec!["q1".to_owned()],
            runs_per_configuration: 1,
        };
        let file = BenchmarkFile { metadata, runs, run_summary, notes: Vec::new() };
        let value = serde_json::to_value(&file).unwrap();
        let one = |mean: f64| json!({"mean": mean, "stddev": 0.0, "min": mean, "max": mean});
        assert_eq!(
            value["run_summary"],
            json!({
                "with_skill": {"pass_rate": one(1.0), "time_seconds": one(1.5), "tokens": one(900.0)},
                "without_skill":
                    {"pass_rate": one(0.0), "time_seconds": one(1.5), "tokens": one(500.0)},
                "delta": {"pass_rate": "+1.00", "time_seconds": "+0.0", "tokens": "+400"},
            })
        );
        assert_eq!(
            value["runs"][0],
            json!({
                "eval_id": "q1", "configuration": "with_skill", "run_number": 1,
                "result": {"pass_rate": 1.0, "passed": 1, "failed": 0, "total": 1,
                    "time_seconds": 1.5, "tokens": 900, "tool_calls": 2, "errors": 0},
                "expectations": [{"text": "x", "passed": true, "evidence": "y"}], "notes": [],
            })
        );
        assert_eq!(value["metadata"]["evals_run"], json!(["q1"]));
        assert_eq!(serde_json::from_value::<BenchmarkFile>(value).unwrap(), file);
    }
}
