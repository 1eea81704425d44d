//! Events, and what becomes of them.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{JournalError, JournalErrorKind};

/// Bytes of JSON that one event may carry.
pub const MAX_PAYLOAD: usize = 256 * 1024;

/// Bytes of a topic, a source, a correlation id or a key.
const MAX_NAME: usize = 512;

/// An event that is to be kept.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// Dotted name such as `skill.added`.
    pub topic: String,
    /// Who says so.
    pub source: String,
    /// A JSON value of at most [`MAX_PAYLOAD`] bytes.
    pub payload: Box<RawValue>,
    /// What everything began with; absent: this event.
    pub correlation_id: Option<String>,
    /// Of several events with one topic and key only the first is kept.
    pub key: Option<String>,
}

impl NewEvent {
    /// Tells whether the event can be kept.
    ///
    /// # Errors
    /// [`JournalErrorKind::TooLarge`] and [`JournalErrorKind::Invalid`].
    pub(crate) fn check(&self) -> Result<(), JournalError> {
        let length = self.payload.get().len();
        if length > MAX_PAYLOAD {
            let topic = &self.topic[..self.topic.floor_char_boundary(MAX_NAME)];
            return Err(JournalError::new(
                JournalErrorKind::TooLarge,
                format!(
                    "the payload of `{topic}` has {length} bytes, at most {MAX_PAYLOAD} are kept"
                ),
                "put what is large into a file and name the file in the event",
            ));
        }
        let invalid = |message: String| {
            JournalError::new(JournalErrorKind::Invalid, message, "see docs/events.md")
        };
        let of_a_topic = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if self.topic.is_empty()
            || self.topic.len() > MAX_NAME
            || !self.topic.chars().all(of_a_topic)
            || self.topic.split('.').any(str::is_empty)
        {
            return Err(invalid(
                "a topic is made of letters, digits, `_`, `-` and single dots".to_owned(),
            ));
        }
        let named = [
            ("source", Some(&self.source)),
            ("correlation id", self.correlation_id.as_ref()),
            ("key", self.key.as_ref()),
        ];
        for (what, text) in named {
            let text = text.map_or("", String::as_str);
            if text.len() > MAX_NAME || text.chars().any(char::is_control) {
                return Err(invalid(format!(
                    "the {what} of `{}` is over {MAX_NAME} bytes or has control characters",
                    self.topic
                )));
            }
        }
        Ok(())
    }
}

/// An event as it is kept.
#[derive(Debug, Clone, Serialize)]
pub struct StoredEvent {
    /// Its place among all events of the file, from 1.
    pub id: i64,
    /// When it was appended, in milliseconds since 1970.
    pub at_ms: u64,
    /// Dotted name.
    pub topic: String,
    /// Who said so.
    pub source: String,
    /// A JSON value.
    pub payload: Box<RawValue>,
    /// What everything began with; `event-<id>` where nothing else did.
    pub correlation_id: String,
    /// The idempotency key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Finds out the lane of an event.
type OrderingKeyFn = Arc<dyn Fn(&StoredEvent) -> Option<String> + Send + Sync>;

/// Who gets events.
#[derive(Clone)]
pub struct Subscriber {
    /// Unique, and the same after a restart: what is waiting is found by it.
    pub id: String,
    /// Topic or prefix; empty or `*` means every event.
    pub topic: String,
    pub(crate) lane: Option<OrderingKeyFn>,
}

impl Subscriber {
    /// A subscriber whose deliveries are made one after the other.
    #[must_use]
    pub fn new(id: impl Into<String>, topic: impl Into<String>) -> Self {
        Self { id: id.into(), topic: topic.into(), lane: None }
    }

    /// Lets deliveries of different lanes be made at once. Within a lane they are made in the order
    /// of the events, and one that waits for another attempt holds up those behind it; events
    /// without a lane share one in which others may pass.
    #[must_use]
    pub fn with_ordering_key(
        mut self,
        lane: impl Fn(&StoredEvent) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.lane = Some(Arc::new(lane));
        self
    }

    pub(crate) fn ordering_key(&self, event: &StoredEvent) -> String {
        self.lane.as_ref().and_then(|lane| lane(event)).unwrap_or_default()
    }
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber").field("id", &self.id).field("topic", &self.topic).finish()
    }
}

/// An event that one subscriber is to handle now.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Names the delivery; the same at every attempt.
    pub id: i64,
    /// Who is to handle it.
    pub subscriber: String,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// The event.
    pub event: StoredEvent,
}

/// What [`Journal::claim_due`](crate::Journal::claim_due) took.
#[derive(Debug, Clone, Default)]
pub struct ClaimedDeliveries {
    /// The deliveries, the oldest event first.
    pub deliveries: Vec<Delivery>,
    /// Milliseconds until another delivery is due that waits for its time; what waits for its lane
    /// only is not counted.
    pub next_ms: Option<u64>,
}

/// A delivery that was given up.
#[derive(Debug, Clone, Serialize)]
pub struct DeadLetter {
    /// Names the delivery.
    pub id: i64,
    /// Who was to handle it.
    pub subscriber: String,
    /// How often it was tried.
    pub attempts: u32,
    /// Why the last attempt failed.
    pub error: String,
    /// When it was given up, in milliseconds since 1970.
    pub at_ms: u64,
    /// The event.
    pub event: StoredEvent,
}

/// Which events to list.
#[derive(Debug, Clone, Default)]
pub struct TailQuery {
    /// Only those behind this one; absent: the last ones.
    pub after: Option<i64>,
    /// Topic or prefix; empty or `*` means every event.
    pub topic: String,
    /// At most so many.
    pub limit: usize,
}

/// What became of the last run of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScheduleRun {
    /// The time it was due, in milliseconds since 1970.
    pub due_ms: u64,
    /// When it began.
    pub started_ms: u64,
    /// When it ended; absent while it runs, and where the process ended before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// Why it failed; absent where it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Whether `topic` is `wanted` or lies below it; nothing and `*` stand for all.
#[must_use]
pub fn topic_matches(wanted: &str, topic: &str) -> bool {
    wanted.is_empty()
        || wanted == "*"
        || topic.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_match_whole_segments() {
        assert!(topic_matches("", "skill.added"));
        assert!(topic_matches("*", "skill.added"));
        assert!(topic_matches("skill", "skill.added"));
        assert!(topic_matches("skill.added", "skill.added"));
        assert!(!topic_matches("skill.add", "skill.added"));
        assert!(!topic_matches("skill.added", "skill"));
    }

    #[test]
    fn what_cannot_be_kept_is_refused_with_the_reason() {
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
