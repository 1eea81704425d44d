//! Schedules, and their runs on demand.

use std::time::Duration;

use maud::{Markup, html};
use skillhost_control::{LastRun, ScheduleSummary};
use skillhost_payload::CallError;

use crate::error::{ConsoleError, PageResult};
use crate::layout::{NavEntry, draw_badge, draw_empty};
use crate::visible_text::{draw_error_text, draw_text, format_duration};
use crate::visit::{Visit, redirect_to};

/// The time for which the form waits for the run; a longer one goes on in the background.
const RUN_WAIT: Duration = Duration::from_secs(2);

pub(crate) async fn list_schedules(visit: Visit) -> PageResult {
    let schedules = visit.kernel().list_schedules().await;
    let body = html! {
        h1 { "Schedules" }
        p.lead { "Manifests of extensions start tools and agents at certain times." }
        div #schedules data-live="" {
            @if schedules.is_empty() {
                (draw_empty("There are no schedules. A manifest has them under `schedules`."))
            } @else {
                table.rows {
                    thead { tr { th scope="col" { "Schedule" } th scope="col" { "Action" } th scope="col" { "Next run" } th scope="col" { "Last run" } th scope="col" { "Start" } } }
                    tbody { @for schedule in &schedules { (draw_schedule(&visit, schedule)) } }
                }
            }
        }
    };
    Ok(visit.page(NavEntry::Schedules, "Schedules", &body).await)
}

fn draw_schedule(visit: &Visit, schedule: &ScheduleSummary) -> Markup {
    html! {
        tr {
            td data-label="Schedule" {
                div { strong { (draw_text(&schedule.id)) } br; code { (draw_text(&schedule.cron)) } }
            }
            td data-label="Action" { (draw_text(&schedule.action)) }
            td data-label="Next run" { (draw_text(&schedule.next)) }
            // One element: the cell is a grid on narrow screens.
            td data-label="Last run" { div { (draw_last_run(schedule)) } }
            td data-label="Start" {
                form method="post" action="/schedules/run" {
                    (visit.csrf_field())
                    input type="hidden" name="id" value=(schedule.id);
                    button type="submit" disabled[schedule.running] {
                        "Run now" span.unseen { ": " (schedule.id) }
                    }
                }
            }
        }
    }
}

fn draw_last_run(schedule: &ScheduleSummary) -> Markup {
    html! {
        @match &schedule.last {
            _ if schedule.running => (draw_badge("running", "runs now")),
            None => "never",
            Some(LastRun { at, error: Some(error), .. }) => {
                (draw_badge("error", "failed")) " " (draw_text(at)) pre.text { (draw_error_text(error)) }
            }
            Some(LastRun { at, took_ms: Some(ms), .. }) => {
                (draw_badge("ok", "done")) " " (draw_text(at)) ", " (format_duration(*ms))
            }
            Some(LastRun { at, .. }) => { (draw_text(at)) ", its end is not known" }
        }
    }
}

/// Runs a schedule now.
pub(crate) async fn run_schedule(visit: Visit) -> PageResult {
    let (kernel, id) = (visit.kernel().clone(), visit.form.get("id").to_owned());
    // A task of its own: the run goes on if the browser disconnects.
    let run = tokio::spawn(async move {
        kernel.run_schedule(&id).await.map(drop).map_err(|error| {
            let (kind, message, hint) = (error.kind(), error.to_string(), error.hint());
            CallError { kind, message, hint }
        })
    });
    // A run that takes longer reports its outcome in the list.
    if let Ok(Ok(ended)) = tokio::time::timeout(RUN_WAIT, run).await {
        ended.map_err(ConsoleError::from)?;
    }
    Ok(redirect_to("/schedules"))
}
