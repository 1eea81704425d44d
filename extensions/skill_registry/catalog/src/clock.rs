//! The time, injected, so that tests do not wait.

use std::sync::Mutex;
use std::time::{Duration, SystemTime};

/// A clock for comparisons with file stamps.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> SystemTime;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// A clock that advances only on request; for tests.
#[derive(Debug)]
pub struct ManualClock(Mutex<SystemTime>);

impl ManualClock {
    /// Starts the clock at a time.
    #[must_use]
    pub fn new(now: SystemTime) -> Self {
        Self(Mutex::new(now))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        *self.lock() += by;
    }

    /// Sets the clock.
    pub fn set(&self, now: SystemTime) {
        *self.lock() = now;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, SystemTime> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> SystemTime {
        *self.lock()
    }
}
