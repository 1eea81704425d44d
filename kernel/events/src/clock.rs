//! The injected clock.

use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A clock in milliseconds since 1970.
#[derive(Clone)]
pub struct Clock {
    wall: Arc<dyn Fn() -> u64 + Send + Sync>,
    steady: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl Clock {
    /// Creates the clock of the machine.
    #[must_use]
    pub fn system() -> Self {
        let (start, start_ms) = (Instant::now(), wall_ms());
        // Retry times are stored, so the steady time starts at the wall time and not at zero.
        let steady = move || {
            let elapsed = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
            start_ms.saturating_add(elapsed)
        };
        Self::with_steady(wall_ms, steady)
    }

    /// Creates a clock from a function, for both wall and steady time.
    #[must_use]
    pub fn new(now_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        let wall: Arc<dyn Fn() -> u64 + Send + Sync> = Arc::new(now_ms);
        Self { steady: Arc::clone(&wall), wall }
    }

    /// Creates a clock whose wall time may jump while its steady time does not.
    #[must_use]
    pub fn with_steady(
        wall_ms: impl Fn() -> u64 + Send + Sync + 'static,
        steady_ms: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self { wall: Arc::new(wall_ms), steady: Arc::new(steady_ms) }
    }

    /// Returns the wall time in milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        (self.wall)()
    }

    /// Returns the steady time in milliseconds, unaffected by changes of the system clock; for
    /// waits.
    #[must_use]
    pub fn steady_ms(&self) -> u64 {
        (self.steady)()
    }
}

fn wall_ms() -> u64 {
    // Before 1970 only with a broken clock; 0 is then as good as any other time.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now_ms())
    }
}
