//! The locks of threads, so that a message, the rest of an earlier run and a change by a client never
//! share one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use skillhost_conversation::{Thread, ThreadError, ThreadStore};
use skillhost_core::spawn_blocking;
use skillhost_home::Home;
use skillhost_payload::CallError;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// The time for which a thread in use is tried again. A notice or the end of a task has it for some
/// milliseconds; who chats in another process has it for longer.
const OPEN_LIMIT: Duration = Duration::from_secs(2);
/// The interval of the attempts.
const OPEN_INTERVAL: Duration = Duration::from_millis(20);

/// The locks of the threads in use.
#[derive(Default)]
pub(crate) struct ThreadLocks {
    locks: Mutex<HashMap<String, Weak<AsyncMutex<()>>>>,
}

impl ThreadLocks {
    /// Locks a thread, after those that have it.
    pub(crate) async fn lock(&self, thread: &str) -> OwnedMutexGuard<()> {
        self.find_or_create(thread).lock_owned().await
    }

    /// Locks a thread that is not in use, so that a run that starts now waits; `None` if it is.
    pub(crate) fn try_lock(&self, thread: &str) -> Option<OwnedMutexGuard<()>> {
        self.find_or_create(thread).try_lock_owned().ok()
    }

    fn find_or_create(&self, thread: &str) -> Arc<AsyncMutex<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        // So that the table has only the threads in use.
        locks.retain(|_, lock| lock.strong_count() > 0);
        if let Some(lock) = locks.get(thread).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::new(AsyncMutex::new(()));
        locks.insert(thread.to_owned(), Arc::downgrade(&lock));
        lock
    }
}

/// Opens a thread that another part of the process may have for a moment.
///
/// # Errors
/// A [`ThreadError`]: [`ThreadError::Busy`] if it stays in use; and an error of the runtime.
pub(crate) async fn open_thread(
    home: &Home,
    id: &str,
) -> Result<Result<Thread, ThreadError>, CallError> {
    let start = Instant::now();
    loop {
        let (store, thread) = (ThreadStore::new(home), id.to_owned());
        match spawn_blocking(move || store.open(&thread)).await? {
            Err(ThreadError::Busy { .. }) if start.elapsed() < OPEN_LIMIT => {
                tokio::time::sleep(OPEN_INTERVAL).await;
            }
            opened => return Ok(opened),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn run_waits_for_change_of_thread() {
        let locks = ThreadLocks::default();
        let changing = locks.try_lock("a").unwrap();
        assert!(locks.try_lock("a").is_none() && locks.try_lock("b").is_some());
        let run = locks.lock("a");
        tokio::pin!(run);
        assert!(futures::poll!(run.as_mut()).is_pending());
        drop(changing);
        let running = run.await;
        assert!(locks.try_lock("a").is_none());
        drop(running);
        assert!(locks.try_lock("a").is_some());
    }
}
