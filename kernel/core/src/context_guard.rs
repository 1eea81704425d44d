//! Protection of the kernel's threads from context providers that block.
//!
//! A provider with a ready block is called on the thread of the turn, because a thread switch costs
//! more than the reply. That call runs the extension's code, which may block. Therefore the first
//! call of a provider is made on a thread for blocking work; only after a quick one are calls made
//! in place, one at a time. A slow call resets the provider; while a call does not return, no other
//! one is made. Each provider can block at most one thread of the kernel.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The longest duration of a call that still qualifies for calls in place.
const QUICK: Duration = Duration::from_millis(20);

/// The state of one provider's calls.
#[derive(Debug, Default)]
pub(crate) struct ContextGuard {
    quick: AtomicBool,
    /// The start of the call in place, or 0.
    in_place: AtomicU64,
    /// The start times of calls on other threads.
    elsewhere: Mutex<Vec<u64>>,
    /// `elsewhere` is not empty; read without the lock.
    any_elsewhere: AtomicBool,
}

/// A call into the provider's code; dropping it ends the call.
#[derive(Debug)]
pub(crate) struct GuardedCall<'g> {
    guard: &'g ContextGuard,
    started_at: u64,
    in_place: bool,
}

impl ContextGuard {
    /// Returns whether a call has not returned within the limit.
    pub(crate) fn is_stuck(&self, limit: Duration) -> bool {
        let in_place = self.in_place.load(Ordering::Acquire);
        let elsewhere = self.any_elsewhere.load(Ordering::Acquire);
        // The usual case needs no lock.
        if in_place == 0 && !elsewhere {
            return false;
        }
        let (now, limit) = (now_nanos(), to_nanos(limit));
        let is_late = |started_at: u64| started_at != 0 && now.saturating_sub(started_at) > limit;
        is_late(in_place) || self.lock().iter().any(|started_at| is_late(*started_at))
    }

    /// Starts a call in place; returns `None` if it must be made on another thread.
    pub(crate) fn start_in_place(&self) -> Option<GuardedCall<'_>> {
        if !self.quick.load(Ordering::Acquire) {
            return None;
        }
        let started_at = now_nanos();
        // Only one call in place at a time: a second one that blocks would cost another thread.
        let free =
            self.in_place.compare_exchange(0, started_at, Ordering::AcqRel, Ordering::Relaxed);
        free.is_ok().then_some(GuardedCall { guard: self, started_at, in_place: true })
    }

    /// Starts a call on a thread that may block.
    pub(crate) fn start_elsewhere(&self) -> GuardedCall<'_> {
        let started_at = now_nanos();
        self.lock().push(started_at);
        self.any_elsewhere.store(true, Ordering::Release);
        GuardedCall { guard: self, started_at, in_place: false }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u64>> {
        self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for GuardedCall<'_> {
    fn drop(&mut self) {
        let guard = self.guard;
        let was_quick = now_nanos().saturating_sub(self.started_at) <= to_nanos(QUICK);
        if self.in_place {
            guard.in_place.store(0, Ordering::Release);
        } else {
            // Two calls may have the same start time; either entry can then be removed.
            let mut calls = guard.lock();
            if let Some(own) = calls.iter().position(|started_at| *started_at == self.started_at) {
                calls.swap_remove(own);
            }
            guard.any_elsewhere.store(!calls.is_empty(), Ordering::Release);
        }
        // A quick call in place changes no state, so it needs no write.
        if !self.in_place || !was_quick {
            guard.quick.store(was_quick, Ordering::Release);
        }
    }
}

/// Returns the nanoseconds since the first call, plus one; 0 means no time.
fn now_nanos() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    to_nanos(FIRST.get_or_init(Instant::now).elapsed()).saturating_add(1)
}

fn to_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_call_uses_other_thread() {
        let guard = ContextGuard::default();
        assert!(guard.start_in_place().is_none());
        guard.quick.store(true, Ordering::Release);
        let first = guard.start_in_place().expect("it was quick");
        assert!(guard.start_in_place().is_none(), "one at a time");
        drop(first);
        assert!(guard.start_in_place().is_some());
    }

    #[test]
    fn slow_call_resets_provider() {
        let guard = ContextGuard::default();
        drop(GuardedCall { guard: &guard, started_at: now_nanos(), in_place: false });
        assert!(guard.quick.load(Ordering::Acquire));
        std::thread::scope(|scope| {
            // Sleeps for the duration of a slow call.
            scope.spawn(|| {
                let call = guard.start_in_place().expect("it was quick");
                while now_nanos().saturating_sub(call.started_at) <= to_nanos(QUICK) {
                    std::thread::yield_now();
                }
            });
        });
        assert!(guard.start_in_place().is_none());
    }

    #[test]
    fn endless_call_is_stuck() {
        let guard = ContextGuard::default();
        assert!(!guard.is_stuck(Duration::ZERO));
        let call = guard.start_elsewhere();
        assert!(!guard.is_stuck(Duration::MAX));
        while !guard.is_stuck(Duration::ZERO) {
            std::thread::yield_now();
        }
        drop(call);
        assert!(!guard.is_stuck(Duration::ZERO));
    }
}
