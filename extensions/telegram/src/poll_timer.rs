//! The time of the poller.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use skillhost_sdk::async_trait;

/// The clock and the pauses of the poller; tests substitute their own.
#[async_trait]
pub(crate) trait PollTimer: Send + Sync + 'static {
    /// Waits.
    async fn pause(&self, time: Duration);

    /// Returns the time in seconds since 1970.
    fn unix_time(&self) -> u64;
}

/// The clock of the system.
pub(crate) struct SystemTimer;

#[async_trait]
impl PollTimer for SystemTimer {
    async fn pause(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn unix_time(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
    }
}

/// Pauses between failures: each is twice as long as the one before it.
#[derive(Debug, Default)]
pub(crate) struct GrowingPause {
    failures: u32,
}

impl GrowingPause {
    /// Returns the next pause.
    pub(crate) fn next(&mut self, first: Duration, most: Duration) -> Duration {
        let pause = first.saturating_mul(1 << self.failures.min(20)).min(most);
        self.failures += 1;
        pause
    }

    /// Starts again after a success.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_limit() {
        let (first, most) = (Duration::from_secs(1), Duration::from_secs(5));
        let mut pause = GrowingPause::default();
        let seconds: Vec<_> = (0..5).map(|_| pause.next(first, most).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 5, 5]);
        pause.reset();
        assert_eq!(pause.next(first, most), first);
        pause.failures = u32::MAX - 1;
        assert_eq!(pause.next(first, most), most);
    }
}
