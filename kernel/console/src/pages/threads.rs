//! Threads: the list, and the first message of a new one.

use axum::http::StatusCode;
use maud::html;
use skillhost_control::{AgentStatus, AgentSummary, ControlRequest, DEFAULT_AGENT};
use skillhost_conversation::{ThreadStore, ThreadSummary};
use skillhost_payload::{CallError, OperatorCommand};

use crate::error::{ConsoleError, PageResult};
use crate::form_fields::path_with;
use crate::layout::{NavEntry, draw_empty};
use crate::pages::thread::{accept_message, new_message_id};
use crate::visible_text::{draw_age, draw_text, format_count, shorten};
use crate::visit::{Visit, redirect_to, run_blocking};

/// The number of listed threads.
const MAX_THREADS: usize = 100;
/// The number of characters of a title.
const MAX_TITLE_CHARS: usize = 120;

pub(crate) async fn list_threads(visit: Visit) -> PageResult {
    let store = ThreadStore::new(visit.home());
    let listed = run_blocking(move || {
        let recent = store.recent()?;
        Ok::<Vec<ThreadSummary>, skillhost_conversation::ThreadError>(
            recent.take(MAX_THREADS + 1).collect(),
        )
    });
    let mut threads = listed.await?.map_err(ConsoleError::from)?;
    let has_more = threads.len() > MAX_THREADS;
    threads.truncate(MAX_THREADS);
    let agents: Vec<AgentSummary> = visit.request(ControlRequest::Agents).await?;
    let now_ms = visit.now_ms().await?;
    let body = html! {
        h1 { "Threads" }
        details.compose open[threads.is_empty()] #new {
            summary { "Start a thread" }
            form method="post" action="/threads" {
                (visit.csrf_field())
                input type="hidden" name="message_id" value=(new_message_id());
                label for="agent" { "Agent" }
                select #agent name="agent" {
                    @for agent in agents.iter().filter(|it| it.state == AgentStatus::Ready) {
                        option value=(agent.id) selected[agent.id.as_str() == DEFAULT_AGENT] {
                            (draw_text(&agent.name)) " (" (agent.id) ")"
                        }
                    }
                }
                label for="text" { "Message" }
                textarea #text name="text" rows="4" required {}
                button.primary type="submit" { "Start" }
            }
        }
        div #threads data-live="" {
            @if threads.is_empty() {
                (draw_empty("There are no threads yet. Start one above."))
            } @else {
                ul.cards {
                    @for thread in &threads {
                        li {
                            a href=(path_with("/threads/", &thread.id)) {
                                span.title {
                                    @if thread.title.trim().is_empty() { "(no message yet)" }
                                    @else { (draw_text(&shorten(&thread.title, MAX_TITLE_CHARS))) }
                                }
                            }
                            p.meta {
                                span { (draw_text(&thread.agent)) }
                                span { (format_count(thread.messages as u64, "message")) }
                                span { "changed " (draw_age(thread.changed, now_ms)) " ago" }
                            }
                            @if let Some(problem) = &thread.problem {
                                p.warning { (draw_text(problem)) }
                            }
                        }
                    }
                }
                @if has_more {
                    p.hint { "Older threads: " code { (OperatorCommand::ListThreads.to_string()) } }
                }
            }
        }
    };
    Ok(visit.page(NavEntry::Threads, "Threads", &body).await)
}

/// Creates a thread with its first message.
pub(crate) async fn start_thread(visit: Visit) -> PageResult {
    let agent = visit.form.get("agent").to_owned();
    let text = visit.form.text("text");
    if text.trim().is_empty() {
        let status = StatusCode::BAD_REQUEST;
        return Err(ConsoleError::new(status, "a message is required", "go back and write one"));
    }
    // Before the thread is created: a thread without a message would remain.
    let details: Result<AgentSummary, ConsoleError> =
        visit.request(ControlRequest::Agent { id: agent.clone() }).await;
    let agent = details?.id.to_string();
    let store = ThreadStore::new(visit.home());
    let created = run_blocking(move || store.create(&agent).map(|thread| thread.id().to_owned()));
    let id = created.await?.map_err(ConsoleError::from)?;
    let message_id = visit.form.get("message_id").to_owned();
    accept_message(&visit, &id, &message_id, &text).await?;
    Ok(redirect_to(&path_with("/threads/", &id)))
}

impl From<skillhost_tasks::QueueError> for ConsoleError {
    fn from(error: skillhost_tasks::QueueError) -> Self {
        CallError::from(error).into()
    }
}
