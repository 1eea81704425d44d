//! The handler of the ends of tasks.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use skillhost_engine::EndNotices;
use skillhost_events::{Delivery, StoredEvent};
use skillhost_payload::{CallError, ErrorKind};

use crate::bus::{BuiltinHandler, HandlerOutcome};

/// The event handler that announces the ends of tasks to the threads that submitted them.
#[derive(Default)]
pub(crate) struct TaskEndHandler {
    /// Set while the kernel is assembled, after the delivery that has this handler.
    notices: OnceLock<Arc<EndNotices>>,
}

impl TaskEndHandler {
    pub(crate) fn set_notices(&self, notices: &Arc<EndNotices>) {
        let _ = self.notices.set(Arc::clone(notices));
    }
}

#[async_trait]
impl BuiltinHandler for TaskEndHandler {
    fn topic(&self) -> &str {
        skillhost_events::topic::TASK_ENDED
    }

    /// Returns the thread: it gets its notices one after the other.
    fn ordering_key(&self, event: &StoredEvent) -> Option<String> {
        EndNotices::thread_of_event(event.payload.get())
    }

    /// Returns `false`: a notice waits for the runs of its thread, which may outlive several
    /// processes, and its key makes a repetition harmless.
    fn counts_crashes(&self) -> bool {
        false
    }

    async fn handle(&self, delivery: &Delivery) -> HandlerOutcome {
        let Some(notices) = self.notices.get() else {
            let error = CallError::new(ErrorKind::Unavailable, "the kernel is starting");
            return HandlerOutcome::Failed(error);
        };
        match notices.handle_end(delivery.event.payload.get()).await {
            Ok(()) => HandlerOutcome::Done,
            Err(error) => HandlerOutcome::Failed(error),
        }
    }
}
