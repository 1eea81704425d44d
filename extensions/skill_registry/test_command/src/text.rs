//! The results for people.

use skillhost_terminal::{CliError, Output, TableColumn, display_safe};

use crate::model_text::print_models;
use crate::summary::{TestSummary, TestedReport};

pub(crate) fn print_summary(output: Output, summary: &TestSummary) -> Result<(), CliError> {
    // Files first, as a wrong file explains missing cases.
    for skill in &summary.skills {
        print_findings(output, skill)?;
    }
    for skill in &summary.skills {
        print_failures(output, skill)?;
    }
    if summary.skills.is_empty() {
        output.print_line("No skill has cases.")?;
        output.print_note("docs/evals.md says how to write `evals/triggers.json`");
        return Ok(());
    }
    if summary.tests_routing {
        print_routing(output, summary)?;
    }
    print_models(output, &summary.models, summary.allow_skipped)
}

fn print_routing(output: Output, summary: &TestSummary) -> Result<(), CliError> {
    let rows: Vec<Vec<String>> = summary.skills.iter().map(to_row).collect();
    output.print_table(
        &[
            TableColumn::fixed("skill"),
            TableColumn::fixed("cases"),
            TableColumn::fixed("passed"),
            TableColumn::fixed("failed"),
            TableColumn::fixed("recall"),
            TableColumn::fixed("precision"),
            TableColumn::fixed("MRR"),
        ],
        &rows,
    )?;
    let (all, failed) = summary.counts();
    let skills = match summary.skills.len() {
        1 => "1 skill".to_owned(),
        count => format!("{count} skills"),
    };
    let cases = if all == 1 { "case" } else { "cases" };
    output.print_line(format!(
        "{skills}, {all} {cases}: {} passed, {failed} failed, among {} other skills",
        all - failed,
        summary.distractors
    ))
}

/// Prints the findings in the files of cases.
fn print_findings(output: Output, skill: &TestedReport) -> Result<(), CliError> {
    for file in &skill.tested.cases.files {
        for finding in &file.findings {
            let kind = if finding.is_warning { "warning" } else { "error" };
            let line = format!(
                "{}:{}:{}: {kind}: {}",
                skill.tested.file_path(file).display(),
                finding.line,
                finding.column,
                finding.message
            );
            output.print_line(display_safe(&line))?;
            if !finding.help.is_empty() {
                output.print_line(format!("  help: {}", display_safe(&finding.help)))?;
            }
        }
    }
    Ok(())
}

fn print_failures(output: Output, skill: &TestedReport) -> Result<(), CliError> {
    for result in &skill.report.results {
        let Some(failure) = &result.failure else { continue };
        // On one line each, so that the output can be searched.
        let reason = failure.describe(result);
        let line = format!(
            "routing: {}/{} \"{}\": {reason}",
            skill.report.skill_id, result.case, result.query
        );
        output.print_wrapped(&display_safe(&line), 2)?;
    }
    Ok(())
}

fn to_row(skill: &TestedReport) -> Vec<String> {
    let report = &skill.report;
    let (all, failed) = (report.results.len(), report.failed());
    let rate = |rate: Option<f64>| rate.map_or_else(|| "–".to_owned(), |rate| format!("{rate:.2}"));
    vec![
        report.skill_id.clone(),
        all.to_string(),
        (all - failed).to_string(),
        failed.to_string(),
        rate(report.recall),
        rate(report.precision),
        rate(report.mean_reciprocal_rank),
    ]
}
