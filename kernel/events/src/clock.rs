//! The time, given from outside.

use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Tells the time in milliseconds since 1970.
#[derive(Clone)]
pub struct Clock {
    wall: Arc<dyn Fn() -> u64 + Send + Sync>,
    steady: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl Clock {
    /// The clock of the machine.
    #[must_use]
    pub fn system() -> Self {
        let (began, began_ms) = (Instant::now(), wall_ms());
        let steady = move || {
            let elapsed = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            began_ms.saturating_add(elapsed)
        };
        Self::with_steady(wall_ms, steady)
    }

    /// A clock that says what a function says.
    #[must_use]
    pub fn new(now_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        let wall: Arc<dyn Fn() -> u64 + Send + Sync> = Arc::new(now_ms);
        Self { steady: Arc::clone(&wall), wall }
    }

    /// A clock whose wall time may jump while its steady time does not.
    #[must_use]
    pub fn with_steady(
        wall_ms: impl Fn() -> u64 + Send + Sync + 'static,
        steady_ms: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self { wall: Arc::new(wall_ms), steady: Arc::new(steady_ms) }
    }

    /// Milliseconds since 1970, as people read them.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        (self.wall)()
    }

    /// Milliseconds since 1970 as if nobody had set the clock since this one was made: for waits.
    #[must_use]
    pub fn steady_ms(&self) -> u64 {
        (self.steady)()
    }
}

fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now_ms())
    }
}
