//! The limit of active and waiting requests of one client.

use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::model::{ErrorCode, ErrorData};
use tokio::sync::{Semaphore, SemaphorePermit};

/// The error code of a temporary overload; from the range that the protocol leaves to servers.
const BUSY: ErrorCode = ErrorCode(-32000);

/// A limiter that runs some requests, queues more and rejects the rest.
pub(super) struct RequestLimiter {
    running: Semaphore,
    admitted: AtomicUsize,
    max_admitted: usize,
}

/// A permit to run one request; released on drop.
pub(super) struct Permit<'g> {
    limiter: &'g RequestLimiter,
    _running: Option<SemaphorePermit<'g>>,
}

impl RequestLimiter {
    pub(super) fn new(running: usize, waiting: usize) -> Self {
        let max_admitted = running.saturating_add(waiting);
        Self { running: Semaphore::new(running), admitted: AtomicUsize::new(0), max_admitted }
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// [`BUSY`] if too many requests wait already.
    pub(super) async fn acquire(&self) -> Result<Permit<'_>, ErrorData> {
        // Created before the count is raised, so that its drop lowers the count even if this future
        // is dropped during the wait.
        let mut permit = Permit { limiter: self, _running: None };
        if self.admitted.fetch_add(1, Ordering::Relaxed) >= self.max_admitted {
            let message = format!("more than {} requests are active", self.max_admitted);
            return Err(ErrorData::new(BUSY, message, None));
        }
        // `acquire` fails only for a closed semaphore, and this one is never closed.
        permit._running = self.running.acquire().await.ok();
        Ok(permit)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.limiter.admitted.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn limiter_queues_then_rejects() {
        let gate = RequestLimiter::new(1, 1);
        let first = gate.acquire().now_or_never().unwrap().unwrap();
        let mut second = Box::pin(gate.acquire());
        assert!(second.as_mut().now_or_never().is_none());
        let error = gate.acquire().now_or_never().unwrap().map(|_| ()).unwrap_err();
        assert_eq!((error.code, &*error.message), (BUSY, "more than 2 requests are active"));
        drop(first);
        let second = second.now_or_never().unwrap().unwrap();
        drop(second);
        // A request that was rejected or cancelled while waiting holds no permit.
        let _first = gate.acquire().now_or_never().unwrap().unwrap();
        drop(Box::pin(gate.acquire()).as_mut().now_or_never());
        assert!(Box::pin(gate.acquire()).as_mut().now_or_never().is_none());
    }
}
