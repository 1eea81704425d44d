//! The interface by which parts of the kernel handle durable events.

use async_trait::async_trait;
use skillhost_core::KernelState;
use skillhost_events::{Delivery, StoredEvent};
use skillhost_home::KERNEL_OWNER;
use skillhost_payload::CallError;

/// A part of the kernel that handles events. Its subscriber id is `<owner>:<topic>`.
///
/// It has no time limit of its own; when the kernel stops delivering, its future is dropped and the
/// delivery is repeated after the next start.
#[async_trait]
pub(crate) trait BuiltinHandler: Send + Sync {
    /// Returns the topic, or a prefix of topics up to a dot.
    fn topic(&self) -> &str;

    /// Returns the owner in the subscriber id, which distinguishes the handlers of one topic.
    fn owner(&self) -> &str {
        KERNEL_OWNER
    }

    /// Returns whether it handles events with these extensions.
    fn is_active(&self, _state: &KernelState) -> bool {
        true
    }

    /// Returns the ordering key of an event. Deliveries with the same key are made one after the
    /// other, those with different keys concurrently; events without one share a key.
    fn ordering_key(&self, event: &StoredEvent) -> Option<String>;

    /// Returns whether attempts that end with the process count. Those of a handler that starts no
    /// foreign code and only waits for others do not: it cannot be the cause.
    fn counts_crashes(&self) -> bool {
        true
    }

    /// Handles an event, which may be delivered more than once.
    async fn handle(&self, delivery: &Delivery) -> HandlerOutcome;
}

/// The outcome of one attempt to handle an event.
#[derive(Debug)]
pub(crate) enum HandlerOutcome {
    /// The event was handled and is not delivered again.
    Done,
    /// The attempt failed; it is retried up to the limit.
    Failed(CallError),
    /// No attempt was made: the event is delivered again after the next start.
    Released,
}
