//! Extensions: loaded and failed, with their health, digests and the previous build.

use std::collections::BTreeMap;

use maud::{Markup, html};
use skillhost_control::{ControlRequest, ExtensionDiagnosis, LoadedExtension, RollbackOutcome};
use skillhost_home::{ApprovalAction, Approvals};

use crate::error::PageResult;
use crate::layout::{NavEntry, draw_badge, draw_empty};
use crate::visible_text::{draw_error_text, draw_text, draw_time};
use crate::visit::{Visit, redirect_to, run_blocking};

/// The approval of an extension, for display.
struct ApprovalRow {
    digest: String,
    by: String,
    at_ms: u64,
    is_approved: bool,
}

pub(crate) async fn list_extensions(visit: Visit) -> PageResult {
    let diagnosis: ExtensionDiagnosis = visit.request(ControlRequest::Diagnose).await?;
    // The approvals are a file, which is read on a thread for it.
    let home = visit.home().clone();
    let (approvals, problem) = run_blocking(move || read_approvals(&home)).await?;
    let body = html! {
        h1 { "Extensions" }
        div #extensions data-live="" {
            @if let Some(problem) = &problem { p.warning { (draw_text(problem)) } }
            (draw_problems(&diagnosis))
            section {
                h2 { "Loaded" }
                @if diagnosis.report.loaded.is_empty() { (draw_empty("No extension is loaded.")) }
                ul.cards {
                    @for extension in &diagnosis.report.loaded {
                        (draw_extension(&visit, extension, &diagnosis, approvals.get(extension.id.as_str())))
                    }
                }
            }
            section {
                h2 { "Agents" }
                ul.cards {
                    @for agent in &diagnosis.report.agents {
                        li { span.title { (draw_text(&agent.name)) } p.meta { span { (agent.id) } } }
                    }
                }
            }
        }
    };
    Ok(visit.page(NavEntry::Extensions, "Extensions", &body).await)
}

/// Reads the last decision about each extension of agents.
fn read_approvals(home: &skillhost_home::Home) -> (BTreeMap<String, ApprovalRow>, Option<String>) {
    let approvals = match Approvals::load(home) {
        Ok(approvals) => approvals,
        Err(error) => return (BTreeMap::new(), Some(error.to_string())),
    };
    let row = |(id, record): (&str, &skillhost_home::ApprovalRecord)| {
        let row = ApprovalRow {
            digest: record.digest.clone(),
            by: record.approved_by.clone(),
            at_ms: record.at_ms,
            is_approved: record.action == ApprovalAction::Approve,
        };
        (id.to_owned(), row)
    };
    (approvals.by_id().into_iter().map(row).collect(), None)
}

fn draw_problems(diagnosis: &ExtensionDiagnosis) -> Markup {
    let pending = diagnosis.pending.iter().map(|it| (&it.subject, &it.reason, &it.hint));
    let models = diagnosis.models.iter().map(|it| (&it.model, &it.message, &it.hint));
    let errors = diagnosis.containment.iter().chain(&diagnosis.delivery);
    html! {
        @if diagnosis.healthy {
            p { (draw_badge("ok", "healthy")) " Every extension is loaded and works." }
        } @else {
            section {
                h2 { "Problems" }
                ul.problems {
                    @for rejection in &diagnosis.report.rejected {
                        li {
                            (draw_badge("error", "not loaded")) " " strong { (draw_text(&rejection.id)) } ": "
                            (draw_error_text(&rejection.reason))
                            @for line in rejection.hint.lines() { p.hint { (draw_error_text(line)) } }
                        }
                    }
                    @for (subject, reason, hint) in pending.chain(models) {
                        li {
                            (draw_badge("waiting", "attention")) " " strong { (draw_text(subject)) } ": "
                            (draw_error_text(reason)) p.hint { (draw_error_text(hint)) }
                        }
                    }
                    @for error in errors {
                        li {
                            (draw_badge("error", "problem")) " " (draw_error_text(&error.message))
                            p.hint { (draw_error_text(&error.hint)) }
                        }
                    }
                }
            }
        }
    }
}

fn draw_extension(
    visit: &Visit,
    extension: &LoadedExtension,
    diagnosis: &ExtensionDiagnosis,
    approval: Option<&ApprovalRow>,
) -> Markup {
    let health = diagnosis.health.get(&extension.id);
    let error = health.and_then(|health| health.error.as_ref());
    html! {
        li {
            span.title { (draw_text(&extension.name)) }
            p.meta {
                @match error {
                    Some(_) => (draw_badge("error", "not healthy")),
                    None => (draw_badge("ok", "loaded")),
                }
                span { (extension.id) " " (draw_text(&extension.version)) }
                @if extension.bundled { span { "part of the program" } }
                @if extension.service { span { "background service" } }
            }
            @if let Some(error) = error {
                pre.text { (draw_error_text(&error.message)) }
                @if !error.hint.is_empty() { p.hint { (draw_error_text(&error.hint)) } }
            }
            @if !extension.tools.is_empty() {
                p.tools { span.hint { "Tools " } @for tool in &extension.tools { code { (draw_text(tool)) } " " } }
            }
            @if let Some(approval) = approval {
                p.hint {
                    (if approval.is_approved { "Approved by " } else { "Revoked by " })
                    (draw_text(&approval.by)) ", " (draw_time(approval.at_ms)) ": "
                    code.digest { (approval.digest) }
                }
                form method="post" action="/extensions/rollback" {
                    (visit.csrf_field())
                    input type="hidden" name="id" value=(extension.id);
                    button type="submit" {
                        "Restore the previous build" span.unseen { " of " (extension.id) }
                    }
                }
            }
        }
    }
}

/// Restores the previous build of an extension.
pub(crate) async fn roll_back(visit: Visit) -> PageResult {
    let id = visit.form.get("id").to_owned();
    let _outcome: RollbackOutcome = visit.request(ControlRequest::RollBack { id }).await?;
    Ok(redirect_to("/extensions"))
}
