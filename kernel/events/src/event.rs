//! Events, subscribers and deliveries.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{JournalError, JournalErrorKind};

/// The maximum size of an event's payload, in bytes of JSON.
pub(crate) const MAX_PAYLOAD: usize = 256 * 1024;

/// The maximum size of a topic, a source, a correlation id or a key, in bytes.
const MAX_NAME: usize = 512;

/// An event that is not stored yet.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// A dotted name such as `skill.added`.
    pub topic: String,
    /// The publisher of the event.
    pub source: String,
    /// A JSON value of at most 256 KiB.
    pub payload: Box<RawValue>,
    /// The id of the chain of events; `None` starts a new chain with this event.
    pub correlation_id: Option<String>,
    /// The idempotency key: of several events with one topic and key only the first is stored.
    pub key: Option<String>,
}

impl NewEvent {
    /// Checks whether the event can be stored.
    ///
    /// # Errors
    /// [`JournalErrorKind::TooLarge`] and [`JournalErrorKind::Invalid`].
    pub(crate) fn check(&self) -> Result<(), JournalError> {
        let length = self.payload.get().len();
        if length > MAX_PAYLOAD {
            // The topic is not checked yet and may be arbitrarily long.
            let topic = &self.topic[..self.topic.floor_char_boundary(MAX_NAME)];
            return Err(JournalError::new(
                JournalErrorKind::TooLarge,
                format!("the payload of `{topic}` has {length} bytes, the limit is {MAX_PAYLOAD}"),
                "store large data in a file and put its path into the event",
            ));
        }
        let invalid = |message: String| {
            JournalError::new(JournalErrorKind::Invalid, message, "see docs/events.md")
        };
        // No spaces and no `*`: topics are matched by segments and printed in one line.
        let is_topic_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if self.topic.is_empty()
            || self.topic.len() > MAX_NAME
            || !self.topic.chars().all(is_topic_char)
            || self.topic.split('.').any(str::is_empty)
        {
            return Err(invalid(
                "topic is not valid: use letters, digits, `_`, `-` and single dots".to_owned(),
            ));
        }
        let texts = [
            ("source", Some(&self.source)),
            ("correlation id", self.correlation_id.as_ref()),
            ("key", self.key.as_ref()),
        ];
        for (field, text) in texts {
            let text = text.map_or("", String::as_str);
            if text.len() > MAX_NAME || text.chars().any(char::is_control) {
                return Err(invalid(format!(
                    "the {field} of `{}` exceeds {MAX_NAME} bytes or has control characters",
                    self.topic
                )));
            }
        }
        Ok(())
    }
}

/// A stored event.
#[derive(Debug, Clone, Serialize)]
pub struct StoredEvent {
    /// The sequence number in the file, from 1.
    pub id: i64,
    /// The time of the append, in milliseconds since 1970.
    pub at_ms: u64,
    /// A dotted name.
    pub topic: String,
    /// The publisher of the event.
    pub source: String,
    /// A JSON value.
    pub payload: Box<RawValue>,
    /// The id of the chain of events; `event-<id>` for the first event of a chain.
    pub correlation_id: String,
    /// The idempotency key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// A function that returns the ordering key of an event.
type OrderingKeyFn = Arc<dyn Fn(&StoredEvent) -> Option<String> + Send + Sync>;

/// A subscriber of events.
#[derive(Clone)]
pub struct Subscriber {
    /// The id, unique and stable across restarts: pending deliveries are stored under it.
    pub id: String,
    /// A topic or prefix; empty or `*` means every event.
    pub topic: String,
    pub(crate) key_fn: Option<OrderingKeyFn>,
}

impl Subscriber {
    /// Creates a subscriber that receives one delivery at a time.
    #[must_use]
    pub fn new(id: impl Into<String>, topic: impl Into<String>) -> Self {
        Self { id: id.into(), topic: topic.into(), key_fn: None }
    }

    /// Allows concurrent deliveries of events with different ordering keys.
    ///
    /// Deliveries with one key are made in the order of the events, and one that waits for a retry
    /// blocks its successors. Events without a key are delivered one at a time, but may overtake
    /// one that waits for a retry.
    #[must_use]
    pub fn with_ordering_key(
        mut self,
        key_fn: impl Fn(&StoredEvent) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.key_fn = Some(Arc::new(key_fn));
        self
    }

    pub(crate) fn ordering_key(&self, event: &StoredEvent) -> String {
        // The empty text is the stored form of "no key".
        self.key_fn.as_ref().and_then(|key_fn| key_fn(event)).unwrap_or_default()
    }
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // By hand, because a function has no `Debug`.
        f.debug_struct("Subscriber").field("id", &self.id).field("topic", &self.topic).finish()
    }
}

/// A delivery of one event to one subscriber.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The id of the delivery; the same at every attempt.
    pub id: i64,
    /// The id of the subscriber.
    pub subscriber: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The event.
    pub event: StoredEvent,
}

/// The result of [`Journal::claim_due`](crate::Journal::claim_due).
#[derive(Debug, Clone, Default)]
pub struct ClaimedDeliveries {
    /// The deliveries, the oldest event first.
    pub deliveries: Vec<Delivery>,
    /// The milliseconds until the next retry is due; deliveries that wait for an earlier one with
    /// their ordering key do not count.
    pub next_ms: Option<u64>,
}

/// A delivery whose attempts are exhausted.
#[derive(Debug, Clone, Serialize)]
pub struct DeadLetter {
    /// The id of the delivery.
    pub id: i64,
    /// The id of the subscriber.
    pub subscriber: String,
    /// The number of attempts.
    pub attempts: u32,
    /// The error of the last attempt.
    pub error: String,
    /// The time of the last attempt, in milliseconds since 1970.
    pub at_ms: u64,
    /// The event.
    pub event: StoredEvent,
}

/// A query for the events at the end of the journal or after an event.
#[derive(Debug, Clone, Default)]
pub struct TailQuery {
    /// The id of the preceding event; `None` selects the last events.
    pub after: Option<i64>,
    /// A topic or prefix; empty or `*` means every event.
    pub topic: String,
    /// The maximum number of events.
    pub limit: usize,
}

/// The last run of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScheduleRun {
    /// The time it was due, in milliseconds since 1970.
    pub due_ms: u64,
    /// The time it started.
    pub started_ms: u64,
    /// The time it ended; `None` while it runs, and if the process ended before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// The error of the run; `None` on success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Returns whether `topic` is `wanted` or lies below it; an empty `wanted` and `*` match all
/// topics.
#[must_use]
pub(crate) fn topic_matches(wanted: &str, topic: &str) -> bool {
    // `JournalStore::tail` has the same rule in SQL.
    wanted.is_empty()
        || wanted == "*"
        || topic.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_match_complete_segments() {
        assert!(topic_matches("", "skill.added"));
        assert!(topic_matches("*", "skill.added"));
        assert!(topic_matches("skill", "skill.added"));
        assert!(topic_matches("skill.added", "skill.added"));
        assert!(!topic_matches("skill.add", "skill.added"));
        assert!(!topic_matches("skill.added", "skill"));
    }

    #[test]
    fn invalid_events_are_rejected_with_kind() {
        let event = |topic: &str, payload: String| NewEvent {
            topic: topic.to_owned(),
            source: "s".to_owned(),
            payload: RawValue::from_string(payload).unwrap(),
            correlation_id: None,
            key: None,
        };
        let kind = |event: NewEvent| event.check().map_err(|error| error.kind());
        let text = |length: usize| format!("\"{}\"", "x".repeat(length - 2));
        assert_eq!(kind(event("a.b-c_d", text(MAX_PAYLOAD))), Ok(()));
        assert_eq!(kind(event("a", text(MAX_PAYLOAD + 1))), Err(JournalErrorKind::TooLarge));
        for topic in ["", ".", "a.", ".a", "a..b", "a b", "a\n", "ä", &"a".repeat(513)] {
            assert_eq!(kind(event(topic, "1".into())), Err(JournalErrorKind::Invalid), "{topic}");
        }
        let key = |key: String| NewEvent { key: Some(key), ..event("a", "1".into()) };
        assert_eq!(kind(key("k".repeat(512))), Ok(()));
        assert_eq!(kind(key("k".repeat(513))), Err(JournalErrorKind::Invalid));
        assert_eq!(kind(key("k\u{1b}".into())), Err(JournalErrorKind::Invalid));
    }
}
