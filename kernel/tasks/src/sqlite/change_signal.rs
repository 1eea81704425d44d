//! The notification of waits about changes.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// A signal that rows may have changed.
#[derive(Debug, Default)]
pub(super) struct ChangeSignal {
    changed: Notify,
    seen: Mutex<SeenChanges>,
}

/// The changes that waits have seen.
#[derive(Debug, Default)]
struct SeenChanges {
    /// A commit of this process that no wait has seen.
    is_pending: bool,
    /// The last `data_version` of the reading connection.
    version: Option<i64>,
}

impl ChangeSignal {
    /// Ends all waits; without a wait the next one ends at once.
    pub(super) fn notify(&self) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).is_pending = true;
        self.changed.notify_waiters();
    }

    /// Waits for a change of this process, at most for a time; returns whether there was one.
    pub(super) async fn wait(&self, at_most: Duration) -> bool {
        let changed = self.changed.notified();
        tokio::pin!(changed);
        // Registered before the check: a change in between ends the wait.
        changed.as_mut().enable();
        let has_changed =
            self.take_pending() || tokio::time::timeout(at_most, changed).await.is_ok();
        if has_changed {
            self.take_pending();
        }
        has_changed
    }

    /// Compares the version of the file with the last one; a new one ends all waits.
    pub(super) fn observe_version(&self, version: Option<i64>) -> bool {
        let previous = {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut seen.version, version)
        };
        let has_changed = previous != version;
        if has_changed {
            self.changed.notify_waiters();
        }
        has_changed
    }

    fn take_pending(&self) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut seen.is_pending)
    }
}
