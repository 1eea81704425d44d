//! The relay of the outbox: rows become events in the journal, then they are removed.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use skillhost_events::EventBus;
use skillhost_payload::{CallError, ErrorKind, Event};
use skillhost_tasks::{OutboxRow, QueueError, TaskQueue};

/// The number of rows that are relayed at once.
const PAGE: usize = 100;
/// The length limit of texts in a payload that is too large for an event, in characters.
const MAX_TEXT_CHARS: usize = 4_000;

/// The error of a relay.
#[derive(Debug)]
pub(crate) enum RelayError {
    /// Of the queue.
    Queue(QueueError),
    /// Of the event journal.
    Journal(CallError),
}

/// Publishes every row. A row that is published twice is one event, as the journal has its key.
pub(crate) async fn relay_outbox(queue: &TaskQueue, events: &EventBus) -> Result<(), RelayError> {
    loop {
        let rows = queue.outbox(PAGE).await.map_err(RelayError::Queue)?;
        if rows.is_empty() {
            return Ok(());
        }
        let mut published = Vec::with_capacity(rows.len());
        let mut failed = None;
        for row in rows {
            let seq = row.seq;
            match publish_row(events, row).await {
                Ok(()) => published.push(seq),
                // Later rows wait, so that events stay in their order.
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        // After the publication: a kill in between only publishes again.
        if !published.is_empty() {
            queue.acknowledge_outbox(published).await.map_err(RelayError::Queue)?;
        }
        if let Some(error) = failed {
            return Err(RelayError::Journal(error));
        }
    }
}

async fn publish_row(events: &EventBus, row: OutboxRow) -> Result<(), CallError> {
    let payload = RawValue::from_string(row.payload).map_err(|e| CallError::protocol_error(&e))?;
    let event = |payload| Event {
        key: Some(row.key.clone()),
        correlation_id: row.correlation_id.clone(),
        ..Event::new(row.topic.clone(), "kernel", payload)
    };
    match events.publish(event(payload.clone())).await {
        Err(error) if matches!(error.kind, ErrorKind::TooLarge) => {
            events.publish(event(shorten_payload(&payload)?)).await.map(drop)
        }
        published => published.map(drop),
    }
}

/// Shortens the texts of a payload; the task has them in full.
fn shorten_payload(payload: &RawValue) -> Result<Box<RawValue>, CallError> {
    let mut value: Value =
        serde_json::from_str(payload.get()).map_err(|error| CallError::protocol_error(&error))?;
    if let Some(outcome) = value.get_mut("outcome") {
        if let Some(Value::String(text)) = outcome.get_mut("text") {
            *text = text.chars().take(MAX_TEXT_CHARS).collect();
        }
        if let Some(Value::String(message)) = outcome.get_mut("message") {
            *message = message.chars().take(MAX_TEXT_CHARS).collect();
        }
        if let Some(structured) = outcome.get_mut("structured") {
            *structured = Value::Null;
        }
        outcome["shortened"] = json!(true);
    }
    serde_json::value::to_raw_value(&value).map_err(|error| CallError::protocol_error(&error))
}
