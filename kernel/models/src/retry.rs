//! The delays between the attempts of a model request.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use async_trait::async_trait;

/// The maximum delay that the provider has not requested.
const MAX_DELAY: Duration = Duration::from_secs(30);
/// The maximum delay that a provider may request; a request for more ends the attempts.
const MAX_REQUESTED_DELAY: Duration = Duration::from_secs(120);

/// A timer between two attempts.
#[async_trait]
pub trait RetryTimer: Send + Sync {
    /// Waits for a time.
    async fn wait(&self, time: Duration);

    /// Returns a number from 0 to below 1 that spreads the attempts of many clients.
    fn jitter(&self) -> f64;
}

/// The timer with the system clock and random jitter.
pub(crate) struct SystemRetryTimer;

#[async_trait]
impl RetryTimer for SystemRetryTimer {
    async fn wait(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn jitter(&self) -> f64 {
        // Every RandomState has different keys, which is enough randomness for jitter.
        (RandomState::new().build_hasher().finish() % 1024) as f64 / 1024.0
    }
}

/// Returns the delay after `attempts` failed attempts, or `None` if the provider requests too long
/// a delay.
pub(crate) fn retry_delay(
    attempts: u32,
    requested: Option<Duration>,
    jitter: f64,
) -> Option<Duration> {
    if let Some(requested) = requested {
        return (requested <= MAX_REQUESTED_DELAY).then_some(requested);
    }
    // The exponent is limited before the power, which would saturate otherwise.
    let full = Duration::from_secs(1).saturating_mul(2_u32.saturating_pow(attempts.min(10)) / 2);
    Some(full.min(MAX_DELAY).mul_f64(0.5 + jitter / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_grows_up_to_limit() {
        let millis = |attempts, requested: Option<u64>, jitter| {
            retry_delay(attempts, requested.map(Duration::from_secs), jitter).map(|p| p.as_millis())
        };
        assert_eq!(millis(1, None, 0.0), Some(500));
        assert_eq!(millis(1, None, 0.5), Some(750));
        assert_eq!(millis(3, None, 0.0), Some(2000));
        assert_eq!(millis(9, None, 0.0), Some(15_000));
        assert_eq!(millis(u32::MAX, None, 0.0), Some(15_000));
        assert_eq!(millis(1, Some(7), 0.9), Some(7000));
        assert_eq!(millis(1, Some(0), 0.9), Some(0));
        assert_eq!(millis(1, Some(121), 0.0), None);
    }

    #[test]
    fn jitter_is_below_one() {
        for _ in 0..100 {
            assert!((0.0..1.0).contains(&SystemRetryTimer.jitter()));
        }
    }
}
