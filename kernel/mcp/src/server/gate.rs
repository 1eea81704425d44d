//! How many requests of one client are worked on, and how many wait.

use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::model::{ErrorCode, ErrorData};
use tokio::sync::{Semaphore, SemaphorePermit};

/// The code of a refusal that passes; from the range the protocol leaves to servers.
const BUSY: ErrorCode = ErrorCode(-32000);

/// Lets some in, has more wait, and sends the rest away.
pub(super) struct RequestLimiter {
    running: Semaphore,
    inside: AtomicUsize,
    most: usize,
}

/// A place behind a gate, given back when dropped.
pub(super) struct Permit<'g> {
    gate: &'g RequestLimiter,
    _running: Option<SemaphorePermit<'g>>,
}

impl RequestLimiter {
    pub(super) fn new(running: usize, waiting: usize) -> Self {
        let most = running.saturating_add(waiting);
        Self { running: Semaphore::new(running), inside: AtomicUsize::new(0), most }
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// When too many wait already.
    pub(super) async fn acquire(&self) -> Result<Permit<'_>, ErrorData> {
        // Taken before the wait and given back by the drop, however it ends.
        let mut place = Permit { gate: self, _running: None };
        if self.inside.fetch_add(1, Ordering::Relaxed) >= self.most {
            let message = format!("more than {} requests are under way", self.most);
            return Err(ErrorData::new(BUSY, message, None));
        }
        // It is never closed.
        place._running = self.running.acquire().await.ok();
        Ok(place)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.gate.inside.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn some_get_in_more_wait_and_the_rest_is_refused() {
        let gate = RequestLimiter::new(1, 1);
        let first = gate.acquire().now_or_never().unwrap().unwrap();
        let mut second = Box::pin(gate.acquire());
        assert!(second.as_mut().now_or_never().is_none());
        let refused = gate.acquire().now_or_never().unwrap().map(|_| ()).unwrap_err();
        assert_eq!((refused.code, &*refused.message), (BUSY, "more than 2 requests are under way"));
        drop(first);
        let second = second.now_or_never().unwrap().unwrap();
        drop(second);
        // Whoever was refused, or gave up while waiting, holds no place.
        let _first = gate.acquire().now_or_never().unwrap().unwrap();
        drop(Box::pin(gate.acquire()).as_mut().now_or_never());
        assert!(Box::pin(gate.acquire()).as_mut().now_or_never().is_none());
    }
}
