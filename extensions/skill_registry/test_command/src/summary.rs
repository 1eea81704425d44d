//! The results of a command.

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use skill_evals::ModelReport;
use skill_testing::RoutingReport;
use skillhost_terminal::{CliError, exit};

use crate::selection::TestedSkill;

/// The results of all skills.
#[derive(Debug, Serialize)]
pub(crate) struct TestSummary {
    /// Whether the cases were tested without a model.
    #[serde(skip)]
    pub(crate) tests_routing: bool,
    /// Whether skipped assertions are accepted.
    #[serde(skip)]
    pub(crate) allow_skipped: bool,
    /// The runs with a model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) models: Vec<ModelReport>,
    /// The number of skills that were added to the catalog.
    pub(crate) distractors: usize,
    /// The skills, sorted by id.
    pub(crate) skills: Vec<TestedReport>,
}

/// The results of a skill.
#[derive(Debug)]
pub(crate) struct TestedReport {
    /// The skill with its cases.
    pub(crate) tested: TestedSkill,
    /// The results.
    pub(crate) report: RoutingReport,
}

impl TestSummary {
    /// Returns the numbers of all cases and of the failed ones.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let all = self.skills.iter().map(|skill| skill.report.results.len()).sum();
        (all, self.skills.iter().map(|skill| skill.report.failed()).sum())
    }

    /// Returns the error of a command that tested no case of its skills, although all of their files
    /// are valid.
    pub(crate) fn explain_no_case(&self, is_filtered: bool) -> Option<CliError> {
        let has_results = !self.models.is_empty() || self.counts().0 > 0;
        let has_errors =
            self.skills.iter().any(|skill| skill.tested.cases.errors().next().is_some());
        let first = self.skills.first().filter(|_| !has_results && !has_errors)?;
        let id = &first.report.skill_id;
        let has_cases = self.skills.iter().any(|skill| !skill.tested.cases.is_empty());
        let has_queries = self.skills.iter().any(|skill| !skill.tested.cases.triggers.is_empty());
        let (message, hint) = if !has_cases {
            (format!("`{id}` has no cases"), "add `evals/triggers.json`; see docs/evals.md")
        } else if self.tests_routing && !has_queries {
            (format!("`{id}` has prompts alone"), "they run with a model: --model PROVIDER/MODEL")
        } else if is_filtered {
            (
                "no case matches".to_owned(),
                "--only is compared with SKILL/CASE, such as `pdf-forms/q1`",
            )
        } else {
            return None;
        };
        Some(CliError::new(exit::FINDINGS, message).with_hint(hint))
    }

    /// Returns the exit code of the command.
    pub(crate) fn exit_code(&self) -> u8 {
        let (mut all, mut failed) = self.counts();
        for report in &self.models {
            all += report.cases.len();
            failed += report.failures(self.allow_skipped).count();
            failed += usize::from(report.falls_behind());
        }
        // A wrong file comes first: the results are then those of an incomplete set.
        if self.skills.iter().any(|skill| skill.tested.cases.errors().next().is_some()) {
            exit::USAGE
        } else if self.models.iter().any(ModelReport::is_incomplete) {
            exit::IO
        } else if failed > 0 || all == 0 {
            // A test without a case is no proof.
            exit::FINDINGS
        } else {
            exit::OK
        }
    }
}

impl Serialize for TestedReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("TestedReport", 8)?;
        object.serialize_field("skill_id", &self.report.skill_id)?;
        object.serialize_field("directory", &self.tested.directory)?;
        object.serialize_field("cases", &self.tested.cases.digest())?;
        object.serialize_field("files", &self.tested.cases.files)?;
        object.serialize_field("recall", &self.report.recall)?;
        object.serialize_field("precision", &self.report.precision)?;
        object.serialize_field("mean_reciprocal_rank", &self.report.mean_reciprocal_rank)?;
        object.serialize_field("results", &self.report.results)?;
        object.end()
    }
}
