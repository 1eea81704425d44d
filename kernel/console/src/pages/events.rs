//! Events of the home, and the deliveries that have failed for good.

use axum::http::StatusCode;
use maud::{Markup, html};
use serde_json::Value;
use skillhost_events::{DeadLetter, StoredEvent, TailQuery};
use skillhost_payload::CallError;

use crate::error::{ConsoleError, PageResult};
use crate::layout::{NavEntry, draw_empty};
use crate::subject_view::draw_value;
use crate::visible_text::{draw_error_text, draw_text, draw_time, format_count, to_line};
use crate::visit::{Visit, redirect_to};

/// The number of listed events.
const MAX_EVENTS: usize = 100;

pub(crate) async fn show_events(visit: Visit) -> PageResult {
    let journal = visit.kernel().events().journal();
    let topic = visit.query.get("topic").trim();
    let tail = TailQuery { after: None, topic: topic.to_owned(), limit: MAX_EVENTS };
    let events = journal.tail(tail).await.map_err(CallError::from)?;
    // Listed without a limit: each of them waits for a person.
    let dead = journal.dead_letters().await.map_err(CallError::from)?;
    let body = html! {
        h1 { "Events" }
        section {
            h2 { "Dead letters" }
            p.lead { "Events whose delivery to an extension has failed for good." }
            div #dead data-live="" {
                @if dead.is_empty() { (draw_empty("Every event was delivered.")) }
                @else { ul.cards { @for letter in &dead { (draw_letter(&visit, letter)) } } }
            }
        }
        section {
            h2 { "Newest events" }
            form.filters method="get" action="/events" {
                div {
                    label for="topic" { "Topic or its beginning" }
                    input #topic type="text" name="topic" value=(to_line(topic)) autocomplete="off";
                }
                button type="submit" { "Filter" }
            }
            div #events data-live="" {
                @if events.is_empty() { (draw_empty("There are no such events.")) }
                @else {
                    ul.log { @for event in events.iter().rev() { (draw_event(event)) } }
                }
            }
        }
    };
    Ok(visit.page(NavEntry::Events, "Events", &body).await)
}

fn draw_event(event: &StoredEvent) -> Markup {
    html! {
        li {
            details #{ "event-" (event.id) } {
                summary {
                    span.title { (draw_text(&event.topic)) }
                    span.meta { span { "from " (draw_text(&event.source)) } span { (draw_time(event.at_ms)) } }
                }
                (draw_payload(event))
            }
        }
    }
}

fn draw_payload(event: &StoredEvent) -> Markup {
    let payload: Value = serde_json::from_str(event.payload.get()).unwrap_or_default();
    html! {
        (draw_value(&payload, 0))
        p.hint { "Chain " code { (draw_text(&event.correlation_id)) } ", number " (event.id) }
    }
}

fn draw_letter(visit: &Visit, letter: &DeadLetter) -> Markup {
    html! {
        li {
            span.title { (draw_text(&letter.event.topic)) }
            p.meta {
                span { "for " code { (draw_text(&letter.subscriber)) } }
                span { (format_count(letter.attempts.into(), "attempt")) }
                span { "last tried " (draw_time(letter.at_ms)) }
            }
            pre.text { (draw_error_text(&letter.error)) }
            details #{ "letter-" (letter.id) } { summary { "Event" } (draw_payload(&letter.event)) }
            form method="post" action="/events/retry" {
                (visit.csrf_field())
                input type="hidden" name="delivery" value=(letter.id);
                button type="submit" { "Retry the delivery" }
            }
        }
    }
}

/// Retries a dead letter.
pub(crate) async fn retry_delivery(visit: Visit) -> PageResult {
    let delivery: i64 = visit.form.get("delivery").parse().map_err(|_| {
        ConsoleError::new(StatusCode::BAD_REQUEST, "delivery is not a number", "reload the page")
    })?;
    let retried = visit.kernel().events().journal().retry_dead_letter(delivery).await;
    retried.map_err(CallError::from)?;
    // The delivering loop looks for due deliveries.
    visit.kernel().events().appended().notify_one();
    Ok(redirect_to("/events"))
}
