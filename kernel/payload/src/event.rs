//! Events, their handlers and subscriptions.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::context::CallContext;

/// The interface of extensions that handle events, called through the generic call.
pub mod event_interface {
    /// Name of the interface.
    pub const NAME: &str = "event";
    /// [`crate::HandleEventRequest`] → `null`.
    pub const HANDLE: &str = "handle";
}

/// A published event.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Event {
    /// A dotted name such as `skill.added`.
    pub topic: String,
    /// The id of the extension that emitted it; set by the kernel.
    #[serde(default)]
    pub source: String,
    /// A JSON value.
    pub payload: Box<RawValue>,
    /// The sequence number in the home's journal, from 1; set by the kernel, 0 if not stored.
    #[serde(default)]
    pub id: i64,
    /// The id of the user message or event that started the chain of events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The idempotency key: of several events with one topic and key only the first is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl Event {
    /// Creates an event that is not stored yet and has no correlation id.
    #[must_use]
    pub fn new(
        topic: impl Into<String>,
        source: impl Into<String>,
        payload: Box<RawValue>,
    ) -> Self {
        let (topic, source) = (topic.into(), source.into());
        Self { topic, source, payload, id: 0, correlation_id: None, key: None }
    }
}

/// A request to handle an event; delivered at least once, with the same id at every attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HandleEventRequest {
    /// The context of an operator, with the event's correlation id.
    pub context: CallContext,
    /// The event.
    pub event: Event,
    /// The number of the attempt, from 1.
    pub attempt: u32,
}

/// A request for the events whose topic is `topic` or begins with `topic` and a dot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SubscribeRequest {
    /// A topic or prefix; empty means every event.
    pub topic: String,
}

/// The id of a subscription of one extension.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct SubscriptionId {
    /// A number unique within the process.
    pub id: u64,
}
