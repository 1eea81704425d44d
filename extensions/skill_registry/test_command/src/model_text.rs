//! The results of runs with a model, for people.

use skill_evals::{
    ModelCaseFailure, ModelCaseKind, ModelCaseReport, ModelReport, RateInterval, SpentAmounts,
};
use skillhost_terminal::{CliError, Output, display_safe};

pub(crate) fn print_models(
    output: Output,
    reports: &[ModelReport],
    allow_skipped: bool,
) -> Result<(), CliError> {
    // Failures first, as in the part without a model: a reader starts there.
    for report in reports {
        for (case, failure) in report.failures(allow_skipped) {
            let reason = describe_model_failure(case, failure);
            let line =
                format!("model: {}/{} \"{}\": {reason}", report.skill_id, case.case, case.text);
            output.print_wrapped(&display_safe(&line), 2)?;
        }
    }
    for report in reports {
        print_report(output, report)?;
    }
    Ok(())
}

fn print_report(output: Output, report: &ModelReport) -> Result<(), CliError> {
    let judge = report.judge.as_ref().map(|judge| format!(", judged by {judge}"));
    output.print_line(display_safe(&format!(
        "{} with {} as {}{}, seed {}",
        report.skill_id,
        report.model,
        report.agent,
        judge.unwrap_or_default(),
        report.seed
    )))?;
    for arm in &report.arms {
        // Invalid runs are stated next to the rate that lacks them.
        let invalid = match arm.invalid {
            0 => String::new(),
            count => format!(", {count} invalid"),
        };
        if let Some(passed) = &arm.passed {
            let (name, tokens) = (arm.arm.as_str(), arm.tokens.mean);
            let rate = describe_rate(passed);
            output.print_line(format!("  {name}: {rate} passed, {tokens:.0} tokens{invalid}"))?;
        } else if arm.invalid > 0 {
            output.print_line(format!("  {}: {} invalid", arm.arm.as_str(), arm.invalid))?;
        }
    }
    for (name, rate) in [("recall", &report.recall), ("precision", &report.precision)] {
        if let Some(rate) = rate {
            output.print_line(format!("  {name}: {}", describe_rate(rate)))?;
        }
    }
    if let Some(paired) = &report.comparison {
        let verdict = paired.verdict.map_or("open", |verdict| verdict.as_str());
        output.print_line(format!(
            "  {verdict}: train {:+.2} (z {:+.1}), held-out {:+.2} (z {:+.1}) after {} runs",
            paired.train.mean, paired.train.z, paired.held_out.mean, paired.held_out.z, paired.runs
        ))?;
    }
    output.print_line(format!("  spent: {}", describe_amounts(&report.spent)))?;
    for note in &report.notes {
        output.print_line(format!("  note: {}", display_safe(note)))?;
    }
    if let Some(reason) = &report.stopped {
        output.print_line(display_safe(&format!("  budget: {reason}")))?;
    }
    output.print_line(display_safe(&format!("  results: {}", report.directory)))
}

/// Describes why a case failed, as a lower-case fragment.
pub(crate) fn describe_model_failure(case: &ModelCaseReport, failure: ModelCaseFailure) -> String {
    match failure {
        ModelCaseFailure::Rate => {
            let rate = case.rate.as_ref().map(describe_rate).unwrap_or_default();
            match case.kind {
                ModelCaseKind::Output => format!("{rate} passed; {}", first_failed(case)),
                ModelCaseKind::Positive => format!("the skill was read in {rate}"),
                ModelCaseKind::Negative => {
                    format!("the skill was read in {rate}, but not expected")
                }
            }
        }
        ModelCaseFailure::Skipped => {
            let skipped = case.skipped_assertions();
            let first =
                skipped.first().map(|result| format!("{}: {}", result.text, result.evidence));
            let count = match skipped.len() {
                1 => "1 assertion".to_owned(),
                count => format!("{count} assertions"),
            };
            format!("{count} not checked; {}", first.unwrap_or_default())
        }
        ModelCaseFailure::Invalid => {
            let reason = case.runs.iter().find_map(|run| run.grading.skillhost.reason.clone());
            format!("no valid run; {}", reason.unwrap_or_else(|| "none was made".to_owned()))
        }
    }
}

fn first_failed(case: &ModelCaseReport) -> String {
    let results = case.runs.iter().flat_map(|run| &run.grading.assertion_results);
    let failed = results.into_iter().find(|result| result.passed == Some(false));
    failed.map(|result| format!("{}: {}", result.text, result.evidence)).unwrap_or_default()
}

pub(crate) fn describe_rate(rate: &RateInterval) -> String {
    let RateInterval { successes, trials, low, high, .. } = rate;
    format!("{successes} of {trials} ({low:.2} to {high:.2})")
}

pub(crate) fn describe_amounts(spent: &SpentAmounts) -> String {
    let cost = spent.usd.map(|usd| format!(", ${usd:.4}")).unwrap_or_default();
    format!("{} requests, {} tokens{cost}", spent.requests, spent.tokens)
}
