//! The interface of programs: messages to a thread, and events by server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::sse::{Event as StreamEvent, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::stream::{self, Stream};
use serde::Deserialize;
use serde_json::json;
use skillhost_payload::Event;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::error::ConsoleError;
use crate::pages::thread::{accept_message, read_thread};
use crate::request_guard::to_json_response;
use crate::thread_events::ThreadEvents;
use crate::visit::Visit;

/// The interval of comments that keep a connection without events alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A message to a thread.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PostedMessage {
    /// The id; a message that is sent again with it is processed once.
    message_id: String,
    text: String,
}

/// Accepts a message. The reply follows in the events of the thread.
pub(crate) async fn send_message(visit: Visit, Path(thread): Path<String>) -> Response {
    let parsed: Result<PostedMessage, _> = serde_json::from_slice(&visit.json);
    let request = match parsed {
        Ok(request) => request,
        Err(error) => {
            let message = format!("message is not valid: {error}");
            let hint = "send {\"message_id\": …, \"text\": …}";
            return to_json_response(&ConsoleError::new(StatusCode::BAD_REQUEST, message, hint));
        }
    };
    match accept_message(&visit, &thread, &request.message_id, &request.text).await {
        Ok(()) => {
            let body = json!({ "message_id": request.message_id });
            (StatusCode::ACCEPTED, Json(body)).into_response()
        }
        Err(error) => to_json_response(&error),
    }
}

/// Streams the events of a thread.
pub(crate) async fn follow_thread(visit: Visit, Path(thread): Path<String>) -> Response {
    if let Err(error) = read_thread(&visit, &thread).await {
        return to_json_response(&error);
    }
    let events = ThreadEvents::new(visit.kernel().clone(), thread);
    let stream = stream::unfold(events, async |mut events| {
        let event = events.next_event().await?;
        Some((Ok(StreamEvent::default().data(event.to_string())), events))
    });
    to_response(stream)
}

/// Streams a hint whenever a page may have changed.
pub(crate) async fn follow_changes(visit: Visit) -> Response {
    let kernel = visit.kernel();
    let changes = (kernel.events().subscribe_all(), kernel.shutdown_token());
    let stream = stream::unfold(changes, async |(mut bus, stopping)| {
        wait_for_change(&mut bus, &stopping).await?;
        Some((Ok(StreamEvent::default().data("changed")), (bus, stopping)))
    });
    to_response(stream)
}

async fn wait_for_change(
    bus: &mut Receiver<Arc<Event>>,
    stopping: &CancellationToken,
) -> Option<()> {
    match stopping.run_until_cancelled(bus.recv()).await? {
        Ok(_) | Err(RecvError::Lagged(_)) => Some(()),
        Err(RecvError::Closed) => None,
    }
}

fn to_response(
    stream: impl Stream<Item = Result<StreamEvent, Infallible>> + Send + 'static,
) -> Response {
    Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}
