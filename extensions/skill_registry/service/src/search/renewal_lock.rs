//! A lock under which one thread renews the index while others wait or use the previous one.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A lock that serializes index renewals.
#[derive(Debug, Default)]
pub(super) struct RenewalLock {
    taken: Mutex<bool>,
    freed: Condvar,
}

/// The turn, until it is dropped: also where the work panics.
pub(super) struct RenewalGuard<'t> {
    turn: &'t RenewalLock,
}

impl RenewalLock {
    /// Acquires the lock; waits for the current holder.
    pub(super) fn acquire(&self) -> RenewalGuard<'_> {
        let taken = self.lock();
        let mut taken =
            self.freed.wait_while(taken, |taken| *taken).unwrap_or_else(PoisonError::into_inner);
        *taken = true;
        RenewalGuard { turn: self }
    }

    /// Acquires the lock if it is free.
    pub(super) fn try_acquire(&self) -> Option<RenewalGuard<'_>> {
        let mut taken = self.lock();
        // A taken lock stays taken, so the replacement changes only a free one.
        (!std::mem::replace(&mut *taken, true)).then(|| RenewalGuard { turn: self })
    }

    /// Waits until a condition holds, checked after each renewal; returns `false` after the
    /// timeout.
    pub(super) fn wait_until(&self, limit: Duration, is_so: impl Fn() -> bool) -> bool {
        // The deadline is fixed once, because the condition variable may wake several times.
        let until = Instant::now() + limit;
        let mut taken = self.lock();
        loop {
            if is_so() {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.freed.wait_timeout(taken, left);
            taken = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        // A panicking holder has released the lock during unwinding, so the state is consistent.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RenewalGuard<'_> {
    fn drop(&mut self) {
        *self.turn.lock() = false;
        // All waiters are woken: some wait for the lock and some for a condition.
        self.turn.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewal_lock_is_exclusive() {
        let turn = RenewalLock::default();
        let mine = turn.try_acquire().unwrap();
        assert!(turn.try_acquire().is_none());
        assert!(!turn.wait_until(Duration::ZERO, || false));
        assert!(turn.wait_until(Duration::ZERO, || true));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| drop(turn.acquire()));
            drop(mine);
            waiting.join().unwrap();
        });
        let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _mine = turn.try_acquire().unwrap();
            panic!("while it was mine");
        }));
        assert!(broken.is_err());
        assert!(turn.try_acquire().is_some());
    }
}
