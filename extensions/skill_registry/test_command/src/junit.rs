//! The report for continuous integration, in the format of JUnit.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use skillhost_terminal::{CliError, display_safe, exit};

use crate::model_junit::to_model_suite;
use crate::summary::{TestSummary, TestedReport};

/// Renders the report: one suite per skill and tier, one case per query.
///
/// # Errors
/// A text cannot be written as XML.
pub(crate) fn render(summary: &TestSummary) -> Result<String, CliError> {
    let mut report = Report::new("skillhost skill test");
    let has_errors = |skill: &&TestedReport| skill.tested.cases.errors().next().is_some();
    let shown = |skill: &&TestedReport| summary.tests_routing || has_errors(skill);
    report.add_test_suites(summary.skills.iter().filter(shown).map(to_suite));
    let models = summary.models.iter();
    report.add_test_suites(models.map(|model| to_model_suite(model, summary.allow_skipped)));
    report
        .to_string()
        .map_err(|error| CliError::new(exit::IO, format!("the report cannot be written: {error}")))
}

fn to_suite(skill: &TestedReport) -> TestSuite {
    let mut suite = TestSuite::new(format!("{} routing", skill.report.skill_id));
    // A file that cannot be used has no case, but must not pass unnoticed.
    for file in &skill.tested.cases.files {
        for finding in file.findings.iter().filter(|finding| !finding.is_warning) {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
            let place = format!("{}:{}:{}", file.path, finding.line, finding.column);
            status.set_message(display_safe(&format!("{place}: {}", finding.message)));
            suite.add_test_case(TestCase::new(place, status));
        }
    }
    for result in &skill.report.results {
        let status = match &result.failure {
            None => TestCaseStatus::success(),
            Some(failure) => {
                let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                status.set_message(display_safe(&failure.describe(result)));
                status
            }
        };
        // XML has no control characters; queries are untrusted.
        let name = display_safe(&format!("{}: {}", result.case, result.query));
        let mut case = TestCase::new(name, status);
        case.set_classname(skill.report.skill_id.clone());
        suite.add_test_case(case);
    }
    suite
}
