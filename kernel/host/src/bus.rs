//! How parts of the kernel handle durable events.

use std::sync::Arc;

use async_trait::async_trait;
use skillhost_events::{Delivery, StoredEvent};

use crate::error::CallError;
use crate::kernel::Kernel;
use crate::user_message::UserMessageHandler;

/// A part of the kernel that handles events. Its subscriber id is `kernel:<topic>`.
///
/// It has no time limit of its own; when the kernel stops delivering, its future is dropped and the
/// delivery is made again after the next start.
#[async_trait]
pub(crate) trait BuiltinHandler: Send + Sync {
    /// The topic, or the beginning of topics up to a dot.
    fn topic(&self) -> &str;

    /// Deliveries of one lane are made one after the other, those of different lanes at once; events
    /// without a lane share one.
    fn ordering_key(&self, event: &StoredEvent) -> Option<String>;

    /// Handles an event, which may come more than once.
    async fn handle(&self, kernel: &Kernel, delivery: &Delivery) -> HandlerOutcome;
}

/// Every handler of the kernel's own.
pub(crate) fn builtin_handlers() -> Vec<Arc<dyn BuiltinHandler>> {
    vec![Arc::new(UserMessageHandler)]
}

/// What came of one attempt to handle an event.
#[derive(Debug)]
pub(crate) enum HandlerOutcome {
    /// It is done; the event does not come again.
    Done,
    /// It failed and is tried again, unless it was tried often enough.
    Failed(CallError),
    /// It was not an attempt: the event comes again after the next start.
    Released,
}
