//! The results of runs with a model in the format of JUnit.

use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestRerun, TestSuite};
use skill_evals::{ModelCaseFailure, ModelReport};
use skillhost_terminal::display_safe;

use crate::model_text::describe_model_failure;

/// Returns a suite: a case per case and arm. Where some runs passed and others did not, a passed case
/// is flaky.
pub(crate) fn to_model_suite(report: &ModelReport, allow_skipped: bool) -> TestSuite {
    let mut suite = TestSuite::new(format!("{} model", report.skill_id));
    for case in &report.cases {
        let failure = case.failure.filter(|it| !allow_skipped || *it != ModelCaseFailure::Skipped);
        let status = match failure {
            Some(failure) => {
                // No valid run is an error of the circumstances, not a failure of the skill.
                let kind = match failure {
                    ModelCaseFailure::Invalid => NonSuccessKind::Error,
                    _ => NonSuccessKind::Failure,
                };
                let mut status = TestCaseStatus::non_success(kind);
                status.set_message(display_safe(&describe_model_failure(case, failure)));
                status
            }
            // A baseline without a valid run.
            None if case.rate.is_none() => TestCaseStatus::skipped(),
            None => {
                let mut status = TestCaseStatus::success();
                let failed = case.runs.iter().filter(|run| run.is_valid() && !run.passed());
                for run in failed.filter(|_| case.is_mixed()) {
                    let mut rerun = TestRerun::new(NonSuccessKind::Failure);
                    rerun.set_message(format!("run {} failed", run.number));
                    status.add_rerun(rerun);
                }
                status
            }
        };
        let name = format!("{} [{}]: {}", case.case, case.arm.as_str(), case.text);
        let mut test = TestCase::new(display_safe(&name), status);
        test.set_classname(report.skill_id.clone());
        suite.add_test_case(test);
    }
    if let Some(reason) = &report.stopped {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message(display_safe(reason));
        suite.add_test_case(TestCase::new("budget", status));
    }
    suite
}
