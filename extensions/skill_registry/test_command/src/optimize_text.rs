//! The results of an optimization, for people.

use skill_evals::{OptimizationEnd, OptimizationReport, PairedReport, RoundOutcome};
use skillhost_terminal::{CliError, Output, display_safe};

use crate::model_text::describe_amounts;

pub(crate) fn print_optimization(
    output: Output,
    report: &OptimizationReport,
) -> Result<(), CliError> {
    let judge = report.judge.as_ref().map(|judge| format!(", judged by {judge}"));
    output.print_line(display_safe(&format!(
        "{} of {} with {}{}, seed {}",
        report.part.as_str(),
        report.skill_id,
        report.model,
        judge.unwrap_or_default(),
        report.seed
    )))?;
    // Whether an author could have aimed at the deciding cases is a part of their meaning.
    let visible = if report.is_visible { " (visible)" } else { "" };
    output.print_line(format!(
        "  cases: {} train, {} failed; {} held-out{visible}",
        report.train_cases, report.train_failures, report.held_out_cases
    ))?;
    if report.is_resumed {
        output.print_line("  resumed: finished runs of an interrupted command were kept")?;
    }
    for round in &report.rounds {
        let result = match &round.result {
            RoundOutcome::Kept { comparison } => format!("kept, {}", describe_pairs(comparison)),
            RoundOutcome::NotBetter { comparison } => {
                format!("not kept, {}", describe_pairs(comparison))
            }
            RoundOutcome::Rejected { reason } => format!("rejected, {reason}"),
            RoundOutcome::NoEdit { reason } => format!("no candidate, {reason}"),
        };
        let line = format!("  round {}: {result}", round.number);
        output.print_wrapped(&display_safe(&line), 4)?;
    }
    if let Some(comparison) = &report.confirmation {
        output.print_line(format!("  fresh seeds: {}", describe_pairs(comparison)))?;
    }
    output.print_line(format!("  spent: {}", describe_amounts(&report.spent)))?;
    output.print_line(display_safe(&format!("  results: {}", report.directory)))?;
    match (&report.end, &report.proposal) {
        (OptimizationEnd::Improved, proposal) => {
            let id = proposal.as_deref().unwrap_or_default();
            output.print_line(format!("improved: proposal {id}"))?;
            output.print_note(format!("review it: skillhost skill proposal review {id}"));
            Ok(())
        }
        (OptimizationEnd::NoImprovement { reason }, _) => {
            output.print_line(format!("no improvement: {}", reason.as_str()))
        }
        (OptimizationEnd::Budget { reason }, _) => {
            output.print_line(display_safe(&format!("budget: {reason}")))?;
            output.print_note("the same command with a larger budget continues");
            Ok(())
        }
        (OptimizationEnd::Harness { reason }, _) => {
            output.print_line(display_safe(&format!("harness: {reason}")))
        }
    }
}

/// Describes the figures of an improvement for the person who decides.
pub(crate) fn describe_gain(report: &OptimizationReport) -> String {
    let figures = report.confirmation.as_ref().map(describe_pairs).unwrap_or_default();
    let kept = |result: &RoundOutcome| matches!(result, RoundOutcome::Kept { .. });
    let rounds = report.rounds.len();
    let gains = report.rounds.iter().filter(|round| kept(&round.result)).count();
    let visible = match report.is_visible {
        true => " Readers of the skill can see the held-out cases.",
        false => "",
    };
    let judge = report.judge.as_ref().map(|judge| format!(", judged by {judge}"));
    format!(
        "The {} passes more cases with {}{}: {figures} on fresh seeds.\n\n{} train cases, of which {} \
         failed before, and {} held-out cases.{visible} {gains} of {rounds} candidates were kept, \
         seed {}; spent: {}.",
        report.part.as_str(),
        report.model,
        judge.unwrap_or_default(),
        report.train_cases,
        report.train_failures,
        report.held_out_cases,
        report.seed,
        describe_amounts(&report.spent)
    )
}

fn describe_pairs(comparison: &PairedReport) -> String {
    let verdict = comparison.verdict.map_or("open", |verdict| verdict.as_str());
    let (train, held_out) = (&comparison.train, &comparison.held_out);
    format!(
        "{verdict}: train {:+.2} (z {:+.1}), held-out {:+.2} (z {:+.1}) after {} runs",
        train.mean, train.z, held_out.mean, held_out.z, comparison.runs
    )
}
