//! One builds, the others wait or do without.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Whose turn it is to renew the index.
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
    /// Takes the turn as soon as nobody has it.
    pub(super) fn acquire(&self) -> RenewalGuard<'_> {
        let taken = self.lock();
        let mut taken =
            self.freed.wait_while(taken, |taken| *taken).unwrap_or_else(PoisonError::into_inner);
        *taken = true;
        RenewalGuard { turn: self }
    }

    /// Takes the turn if nobody has it.
    pub(super) fn try_acquire(&self) -> Option<RenewalGuard<'_>> {
        let mut taken = self.lock();
        (!std::mem::replace(&mut *taken, true)).then(|| RenewalGuard { turn: self })
    }

    /// Waits until something is so, looking each time a turn ends; tells whether it is.
    pub(super) fn wait_until(&self, limit: Duration, is_so: impl Fn() -> bool) -> bool {
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
        // Whoever panicked has given the turn back on the way out.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RenewalGuard<'_> {
    fn drop(&mut self) {
        *self.turn.lock() = false;
        self.turn.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_the_turn_until_it_is_given_back() {
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
