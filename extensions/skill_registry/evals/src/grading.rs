//! The results of a run, in the files of the agentskills guide and of skill-creator.

use serde::{Deserialize, Serialize};

use crate::statistics::round_digits;

/// The result of an assertion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssertionResult {
    /// The assertion in words.
    pub text: String,
    /// Whether it holds; `None` if it was skipped, which is neither.
    pub passed: Option<bool>,
    /// The evidence, or the reason why it was skipped.
    pub evidence: String,
}

/// The counts of a run's assertions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GradingSummary {
    /// Assertions that hold.
    pub passed: u32,
    /// Assertions that do not hold.
    pub failed: u32,
    /// Assertions that were not checked.
    pub skipped: u32,
    /// All of them.
    pub total: u32,
    /// The part of the checked assertions that hold; 0 if none was checked.
    pub pass_rate: f64,
}

/// The usability of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunValidity {
    /// Its results count.
    Valid,
    /// The model replied, but no assertion could be checked.
    Ungraded,
    /// The model did not reply; the run has no result.
    Invalid,
}

/// The origin of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunProvenance {
    /// The digest of the tested files of the skill; absent in the arm without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    /// The digest of the files of cases.
    pub cases: String,
    /// The digest of the other skills.
    pub catalog: String,
    /// The model, `provider/model`.
    pub model: String,
    /// The model that judged sentences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// The seed.
    pub seed: u64,
    /// The usability of the run.
    pub outcome: RunValidity,
    /// The reason why a run is not valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The tool calls of a run, as skill-creator names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionMetrics {
    /// The tool calls.
    pub total_tool_calls: u32,
    /// Those that failed.
    pub errors_encountered: u32,
}

/// The file `grading.json` of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GradingFile {
    /// The results, as the guide names them.
    pub assertion_results: Vec<AssertionResult>,
    /// The same results, as skill-creator names them.
    pub expectations: Vec<AssertionResult>,
    /// The counts.
    pub summary: GradingSummary,
    /// The tool calls.
    pub execution_metrics: ExecutionMetrics,
    /// The origin.
    pub skillhost: RunProvenance,
}

/// The file `timing.json` of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunTiming {
    /// The tokens of all requests, in both directions.
    pub total_tokens: u64,
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// The same in seconds, as skill-creator names it.
    pub total_duration_seconds: f64,
    /// The cost, if the price of the model is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl AssertionResult {
    /// Creates the result of an assertion that was checked.
    #[must_use]
    pub fn checked(text: impl Into<String>, passed: bool, evidence: impl Into<String>) -> Self {
        Self { text: text.into(), passed: Some(passed), evidence: evidence.into() }
    }

    /// Creates the result of an assertion that could not be checked.
    #[must_use]
    pub fn skipped(text: impl Into<String>, reason: &str) -> Self {
        Self { text: text.into(), passed: None, evidence: format!("skipped: {reason}") }
    }
}

impl GradingSummary {
    /// Counts results.
    #[must_use]
    pub fn from_results(results: &[AssertionResult]) -> Self {
        let count = |wanted: Option<bool>| {
            let found = results.iter().filter(|result| result.passed == wanted).count();
            u32::try_from(found).unwrap_or(u32::MAX)
        };
        let (passed, failed, skipped) = (count(Some(true)), count(Some(false)), count(None));
        // Skipped assertions are in the total alone, so that they move no rate.
        let checked = passed + failed;
        let pass_rate = match checked {
            0 => 0.0,
            checked => round_digits(f64::from(passed) / f64::from(checked)),
        };
        Self { passed, failed, skipped, total: checked + skipped, pass_rate }
    }
}

impl GradingFile {
    /// Creates the file of a run's results.
    #[must_use]
    pub fn new(
        results: Vec<AssertionResult>,
        execution_metrics: ExecutionMetrics,
        skillhost: RunProvenance,
    ) -> Self {
        let summary = GradingSummary::from_results(&results);
        // Both readers take the file as it is, so each finds its own name.
        let expectations = results.clone();
        Self { assertion_results: results, expectations, summary, execution_metrics, skillhost }
    }
}

impl RunTiming {
    /// Creates the timing of a run.
    #[must_use]
    pub fn new(total_tokens: u64, duration_ms: u64, cost_usd: Option<f64>) -> Self {
        let total_duration_seconds = duration_ms as f64 / 1e3;
        Self { total_tokens, duration_ms, total_duration_seconds, cost_usd }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn provenance() -> RunProvenance {
        RunProvenance {
            skill: Some("sha256:aa".to_owned()),
            cases: "sha256:bb".to_owned(),
            catalog: "sha256:cc".to_owned(),
            model: "p/m".to_owned(),
            judge: None,
            seed: 7,
            outcome: RunValidity::Valid,
            reason: None,
        }
    }

    #[test]
    fn grading_file_has_both_forms() {
        let results = vec![
            AssertionResult::checked("names three months", true, "March, July, November"),
            AssertionResult::skipped("has a table", "no --judge"),
        ];
        let file = GradingFile::new(results, ExecutionMetrics::default(), provenance());
        let each = json!([
            {"text": "names three months", "passed": true, "evidence": "March, July, November"},
            {"text": "has a table", "passed": null, "evidence": "skipped: no --judge"},
        ]);
        let expected = json!({
            "assertion_results": each,
            "expectations": each,
            "summary": {"passed": 1, "failed": 0, "skipped": 1, "total": 2, "pass_rate": 1.0},
            "execution_metrics": {"total_tool_calls": 0, "errors_encountered": 0},
            "skillhost": {"skill": "sha256:aa", "cases": "sha256:bb", "catalog": "sha256:cc",
                "model": "p/m", "seed": 7, "outcome": "valid"},
        });
        assert_eq!(serde_json::to_value(&file).unwrap(), expected);
        assert_eq!(serde_json::from_value::<GradingFile>(expected).unwrap(), file);
    }

    #[test]
    fn timing_file_has_both_forms() {
        let timing = RunTiming::new(1_200, 2_500, Some(0.01));
        let expected = json!({"total_tokens": 1200, "duration_ms": 2500,
            "total_duration_seconds": 2.5, "cost_usd": 0.01});
        assert_eq!(serde_json::to_value(timing).unwrap(), expected);
        let unknown = serde_json::to_value(RunTiming::new(1, 1, None)).unwrap();
        assert_eq!(unknown.get("cost_usd"), None);
    }

    #[test]
    fn skipped_assertions_do_not_count() {
        let skipped = [AssertionResult::skipped("x", "no sandbox")];
        let summary = GradingSummary::from_results(&skipped);
        assert_eq!((summary.passed, summary.skipped, summary.pass_rate), (0, 1, 0.0));
        let mixed = [skipped[0].clone(), AssertionResult::checked("y", false, "")];
        assert_eq!(GradingSummary::from_results(&mixed).failed, 1);
    }
}
