//! Times of events and messages.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the milliseconds since 1970.
pub fn now_ms() -> u64 {
    // A clock before 1970 yields 0: times are informative, and must not stop a run.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
