//! Keeps context providers from taking the kernel's threads away.
//!
//! A provider that has its block at hand is asked on the thread of the turn, because changing threads
//! costs more than the answer. That is the author's code, and it may block. So a provider has to prove
//! itself: its first call is made on a thread for blocking work, and only after one that was quick are
//! calls made in place, one at a time. Whoever is slow once starts over; while a call does not return,
//! no other one is made. At most one thread of the kernel is lost to each provider.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A call that takes no longer may be made in place.
const QUICK: Duration = Duration::from_millis(20);

/// What is known of one provider.
#[derive(Debug, Default)]
pub(crate) struct ContextGuard {
    quick: AtomicBool,
    /// When the call in place began, or 0.
    in_place: AtomicU64,
    /// When calls on other threads began.
    elsewhere: Mutex<Vec<u64>>,
    /// There is one.
    any_elsewhere: AtomicBool,
}

/// A call in the provider's code; over when it is dropped.
#[derive(Debug)]
pub(crate) struct GuardedCall<'g> {
    guard: &'g ContextGuard,
    began: u64,
    in_place: bool,
}

impl ContextGuard {
    /// Whether a call has not returned within the limit.
    pub(crate) fn is_stuck(&self, limit: Duration) -> bool {
        let in_place = self.in_place.load(Ordering::Acquire);
        let elsewhere = self.any_elsewhere.load(Ordering::Acquire);
        if in_place == 0 && !elsewhere {
            return false;
        }
        let (now, limit) = (now(), nanos(limit));
        let is_late = |began: u64| began != 0 && now.saturating_sub(began) > limit;
        is_late(in_place) || self.lock().iter().any(|began| is_late(*began))
    }

    /// Begins a call in place; `None` where it has to be made on another thread.
    pub(crate) fn begin_in_place(&self) -> Option<GuardedCall<'_>> {
        if !self.quick.load(Ordering::Acquire) {
            return None;
        }
        let began = now();
        let free = self.in_place.compare_exchange(0, began, Ordering::AcqRel, Ordering::Relaxed);
        free.is_ok().then_some(GuardedCall { guard: self, began, in_place: true })
    }

    /// Begins a call on a thread that may block.
    pub(crate) fn begin_elsewhere(&self) -> GuardedCall<'_> {
        let began = now();
        self.lock().push(began);
        self.any_elsewhere.store(true, Ordering::Release);
        GuardedCall { guard: self, began, in_place: false }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u64>> {
        self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for GuardedCall<'_> {
    fn drop(&mut self) {
        let guard = self.guard;
        let was_quick = now().saturating_sub(self.began) <= nanos(QUICK);
        if self.in_place {
            guard.in_place.store(0, Ordering::Release);
        } else {
            let mut calls = guard.lock();
            if let Some(own) = calls.iter().position(|began| *began == self.began) {
                calls.swap_remove(own);
            }
            guard.any_elsewhere.store(!calls.is_empty(), Ordering::Release);
        }
        if !self.in_place || !was_quick {
            guard.quick.store(was_quick, Ordering::Release);
        }
    }
}

/// Nanoseconds since this was first asked, and one.
fn now() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    nanos(FIRST.get_or_init(Instant::now).elapsed()).saturating_add(1)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_call_is_made_elsewhere() {
        let guard = ContextGuard::default();
        assert!(guard.begin_in_place().is_none());
        guard.quick.store(true, Ordering::Release);
        let first = guard.begin_in_place().expect("it was quick");
        assert!(guard.begin_in_place().is_none(), "one at a time");
        drop(first);
        assert!(guard.begin_in_place().is_some());
    }

    #[test]
    fn slow_call_starts_over() {
        let guard = ContextGuard::default();
        drop(GuardedCall { guard: &guard, began: now(), in_place: false });
        assert!(guard.quick.load(Ordering::Acquire));
        std::thread::scope(|scope| {
            // Waits as long as a slow call does.
            scope.spawn(|| {
                let call = guard.begin_in_place().expect("it was quick");
                while now().saturating_sub(call.began) <= nanos(QUICK) {
                    std::thread::yield_now();
                }
            });
        });
        assert!(guard.begin_in_place().is_none());
    }

    #[test]
    fn call_that_does_not_return_is_stuck() {
        let guard = ContextGuard::default();
        assert!(!guard.is_stuck(Duration::ZERO));
        let call = guard.begin_elsewhere();
        assert!(!guard.is_stuck(Duration::MAX));
        while !guard.is_stuck(Duration::ZERO) {
            std::thread::yield_now();
        }
        drop(call);
        assert!(!guard.is_stuck(Duration::ZERO));
    }
}
