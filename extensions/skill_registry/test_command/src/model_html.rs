//! The part of the web page about runs with a model: pass rates with their intervals, trigger rates,
//! tokens against passes.

use maud::{Markup, html};
use skill_evals::{ArmFigures, ModelCaseKind, ModelReport, RateInterval};
use skillhost_terminal::display_safe;

use crate::html_table::render_head;
use crate::model_text::{describe_amounts, describe_model_failure, describe_rate};

/// The width of a rate of 1, in pixels.
const WIDTH: f64 = 240.0;

/// The sides of the plot of tokens against passes, in pixels.
const PLOT: (f64, f64) = (240.0, 120.0);

/// The shown part of a digest, with its prefix `sha256:`.
const SHORT_DIGEST: usize = 19;

pub(crate) fn render_models(reports: &[ModelReport]) -> Markup {
    html! {
        @for report in reports {
            h2 id={ "model-" (report.skill_id) } { (report.skill_id) " with a model" }
            p {
                (display_safe(&report.model)) " as " (report.agent) ", seed " (report.seed) ", "
                (describe_amounts(&report.spent)) "."
            }
            @if let Some(reason) = &report.stopped {
                p { strong { "Not complete: " } (display_safe(reason)) }
            }
            (render_rates(report))
            (render_tokens(&report.arms))
            (render_versions(report))
            (render_cases(report))
        }
    }
}

fn render_rates(report: &ModelReport) -> Markup {
    let arms = report.arms.iter().map(|arm| (arm.arm.as_str(), arm.passed));
    let triggers = [("recall", report.recall), ("precision", report.precision)];
    html! {
        table {
            caption { "Rates with their intervals of 95 %" }
            tbody {
                @for (name, rate) in arms.chain(triggers) {
                    @if let Some(rate) = rate {
                        tr { th scope="row" { (name) } td { (render_interval(name, &rate)) } }
                    }
                }
            }
        }
    }
}

/// Draws a rate as a bar and its interval as a line.
fn render_interval(name: &str, rate: &RateInterval) -> Markup {
    // One digit is finer than a pixel, and keeps the page small.
    let at = |value: f64| format!("{:.1}", value * WIDTH);
    let label = describe_rate(rate);
    html! {
        svg width="420" height="18" role="img" aria-label={ (name) " " (label) } {
            rect.track x="0" y="3" width=(WIDTH) height="12" {}
            rect.bar x="0" y="3" width=(at(rate.rate)) height="12" {}
            line.interval x1=(at(rate.low)) y1="9" x2=(at(rate.high)) y2="9" {}
            line.interval x1=(at(rate.low)) y1="5" x2=(at(rate.low)) y2="13" {}
            line.interval x1=(at(rate.high)) y1="5" x2=(at(rate.high)) y2="13" {}
            text x="248" y="13" { (label) }
        }
    }
}

/// Draws the mean tokens of the arms against their pass rates.
fn render_tokens(arms: &[ArmFigures]) -> Markup {
    // At least 1, because a plot has no width of 0.
    let most = arms.iter().map(|arm| arm.tokens.mean).fold(1.0, f64::max);
    let (width, height) = PLOT;
    let points: Vec<_> = arms
        .iter()
        .filter_map(|arm| {
            let rate = arm.passed?.rate;
            let (x, y) = (arm.tokens.mean / most * width, (1.0 - rate) * height);
            let tokens = arm.tokens.mean;
            let label = format!("{}: {tokens:.0} tokens, {rate:.2} passed", arm.arm.as_str());
            Some((format!("{x:.1}"), format!("{y:.1}"), label))
        })
        .collect();
    html! {
        @if !points.is_empty() {
            figure {
                figcaption { "Passed runs against mean tokens (0 to " (format!("{most:.0}")) ")" }
                svg width="260" height="130" viewBox="-8 -5 260 130" role="img"
                    aria-label="passed runs against tokens" {
                    rect.track x="0" y="0" width=(width) height=(height) {}
                    @for (x, y, label) in &points {
                        circle.bar cx=(x) cy=(y) r="5" { title { (label) } }
                    }
                }
                ul { @for (_, _, label) in &points { li { (label) } } }
            }
        }
    }
}

/// Draws the pass rates of this iteration and of earlier ones with the same cases.
fn render_versions(report: &ModelReport) -> Markup {
    let tested = report.arms.first().and_then(|arm| arm.passed);
    let Some(passed) = tested.filter(|_| !report.earlier.is_empty()) else { return html! {} };
    let digest = |text: &str| text.chars().take(SHORT_DIGEST).collect::<String>();
    let earlier = report.earlier.iter().map(|it| {
        let name = format!("iteration {}, {}", it.iteration, digest(&it.skill));
        (name, it.passed, Some(it.timestamp.as_str()))
    });
    let now = (format!("this iteration, {}", digest(&report.digests.skill)), passed, None);
    let points: Vec<_> = earlier.chain([now]).collect();
    // The last index, and at least 1, because a plot has no width of 0.
    let last = (points.len() - 1).max(1) as f64;
    let (width, height) = PLOT;
    let x = |index: usize| format!("{:.1}", index as f64 / last * width);
    let y = |rate: f64| format!("{:.1}", (1.0 - rate) * height);
    let line: Vec<String> = points
        .iter()
        .enumerate()
        .map(|(index, (_, rate, _))| format!("{},{}", x(index), y(rate.rate)))
        .collect();
    html! {
        figure {
            figcaption { "Passed runs over versions, with intervals of 95 %" }
            svg width="260" height="130" viewBox="-8 -5 260 130" role="img"
                aria-label="passed runs over versions" {
                rect.track x="0" y="0" width=(width) height=(height) {}
                polyline.interval points=(line.join(" ")) fill="none" {}
                @for (index, (name, rate, _)) in points.iter().enumerate() {
                    line.interval x1=(x(index)) y1=(y(rate.low)) x2=(x(index)) y2=(y(rate.high)) {}
                    circle.bar cx=(x(index)) cy=(y(rate.rate)) r="4" {
                        title { (name) ": " (describe_rate(rate)) }
                    }
                }
            }
            ul {
                @for (name, rate, time) in &points {
                    li {
                        (name) ": " (describe_rate(rate))
                        @if let Some(time) = time { ", " (display_safe(time)) }
                    }
                }
            }
        }
    }
}

fn render_cases(report: &ModelReport) -> Markup {
    html! {
        table {
            caption { "Cases" }
            (render_head(&["Case", "Version", "Prompt", "Rate", "Result"]))
            tbody {
                @for case in &report.cases {
                    tr {
                        th scope="row" { (display_safe(&case.case)) }
                        td { (case.arm.as_str()) }
                        td { (display_safe(&case.text)) }
                        td {
                            @match &case.rate {
                                Some(rate) => { (render_interval(rate_name(case.kind), rate)) }
                                None => { "–" }
                            }
                        }
                        td {
                            @match case.failure {
                                None => { "passed" }
                                Some(failure) => {
                                    strong { "failed: " }
                                    (display_safe(&describe_model_failure(case, failure)))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn rate_name(kind: ModelCaseKind) -> &'static str {
    match kind {
        ModelCaseKind::Output => "passed",
        ModelCaseKind::Positive | ModelCaseKind::Negative => "read",
    }
}
