//! The time of signatures.

use std::time::{SystemTime, UNIX_EPOCH};

/// The age of a timestamp that is accepted, in seconds, and how far it may be ahead.
pub(crate) const TOLERANCE: u64 = 5 * 60;

/// A clock; tests substitute their own.
pub(crate) trait HookClock: Send + Sync + 'static {
    /// Returns the time in seconds since 1970.
    fn unix_time(&self) -> u64;
}

/// The clock of the system.
pub(crate) struct SystemHookClock;

impl HookClock for SystemHookClock {
    fn unix_time(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
    }
}
