//! The report as one web page without scripts and external files.

use maud::{DOCTYPE, Markup, html};
use skill_testing::{RoutingReport, RoutingResult};
use skillhost_terminal::display_safe;

use crate::html_table::render_head;
use crate::model_html::render_models;
use crate::summary::{TestSummary, TestedReport};

const STYLE: &str = include_str!("report.css");

/// The width of a bar at a rate of 1, in pixels.
const BAR_WIDTH: f64 = 160.0;

/// Renders the report.
pub(crate) fn render(summary: &TestSummary) -> String {
    let (all, failed) = summary.counts();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Skill tests" }
                style { (STYLE) }
            }
            body {
                h1 { "Skill tests" }
                @if summary.tests_routing { p {
                    (all) " cases, " (all - failed) " passed, " (failed) " failed, among "
                    (summary.distractors) " other skills."
                }
                (render_overview(summary))
                @for skill in &summary.skills { (render_skill(skill)) } }
                (render_models(&summary.models))
            }
        }
    };
    page.into_string()
}

fn render_overview(summary: &TestSummary) -> Markup {
    html! {
        table {
            (render_head(&["Skill", "Cases", "Failed", "Recall", "Precision", "MRR"]))
            tbody {
                @for RoutingRow { report, anchor } in rows(summary) {
                    tr {
                        th scope="row" { a href={ "#" (anchor) } { (report.skill_id) } }
                        td { (report.results.len()) }
                        td { (report.failed()) }
                        td { (render_bar("recall", report.recall)) }
                        td { (render_bar("precision", report.precision)) }
                        td { (render_bar("mean reciprocal rank", report.mean_reciprocal_rank)) }
                    }
                }
            }
        }
    }
}

/// A row of the overview.
struct RoutingRow<'a> {
    report: &'a RoutingReport,
    anchor: String,
}

fn rows(summary: &TestSummary) -> impl Iterator<Item = RoutingRow<'_>> {
    summary.skills.iter().map(|skill| {
        let report = &skill.report;
        RoutingRow { report, anchor: format!("skill-{}", report.skill_id) }
    })
}

/// Draws a rate from 0 to 1 as a bar with its number.
fn render_bar(name: &str, rate: Option<f64>) -> Markup {
    let Some(rate) = rate else { return html! { span.none { "–" } } };
    // The number is next to the bar, so that color and length are not the only signs.
    let (label, width) = (format!("{rate:.2}"), rate * BAR_WIDTH);
    html! {
        svg width="200" height="16" role="img" aria-label={ (name) " " (label) } {
            rect.track x="0" y="2" width=(BAR_WIDTH) height="12" {}
            rect.bar x="0" y="2" width=(format!("{width:.0}")) height="12" {}
            text x="166" y="12" { (label) }
        }
    }
}

fn render_skill(skill: &TestedReport) -> Markup {
    let report = &skill.report;
    // The failures first: a long table of passed cases would hide them.
    let failed = || report.results.iter().filter(|result| result.failure.is_some());
    html! {
        h2 id={ "skill-" (report.skill_id) } { (report.skill_id) }
        @for file in &skill.tested.cases.files {
            @for finding in &file.findings {
                p.finding {
                    code { (file.path) ":" (finding.line) ":" (finding.column) } " "
                    (display_safe(&finding.message))
                }
            }
        }
        @if failed().next().is_none() {
            p { "All " (report.results.len()) " cases passed." }
        } @else {
            (render_results("Failed", failed()))
        }
        details {
            summary { "All cases" }
            (render_results("Cases", report.results.iter()))
        }
    }
}

fn render_results<'a>(title: &str, results: impl Iterator<Item = &'a RoutingResult>) -> Markup {
    html! {
        table {
            caption { (title) }
            (render_head(&["Case", "Query", "Expected", "Rank", "Result"]))
            tbody {
                @for result in results {
                    tr {
                        th scope="row" { (display_safe(&result.case)) }
                        td { (display_safe(&result.query)) }
                        td { (if result.should_trigger { "yes" } else { "no" }) }
                        td { @match result.rank { Some(rank) => { (rank) } None => { "–" } } }
                        td {
                            @match &result.failure {
                                None => { "passed" }
                                Some(failure) => {
                                    strong { "failed: " }
                                    (display_safe(&failure.describe(result)))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
