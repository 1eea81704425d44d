//! When a request is made again.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use async_trait::async_trait;

/// The longest pause that is not the provider's wish.
const LONGEST: Duration = Duration::from_secs(30);
/// The longest pause that is granted to a provider; one that wants more is not asked again.
const PATIENCE: Duration = Duration::from_secs(120);

/// Time between two attempts.
#[async_trait]
pub trait RetryTimer: Send + Sync {
    /// Lets time pass.
    async fn wait(&self, time: Duration);

    /// A number from 0 up to 1 that spreads the attempts of many.
    fn jitter(&self) -> f64;
}

/// Real time, and chance.
pub(crate) struct SystemRetryTimer;

#[async_trait]
impl RetryTimer for SystemRetryTimer {
    async fn wait(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn jitter(&self) -> f64 {
        // Every RandomState has keys of its own, which is all the randomness that is needed here.
        (RandomState::new().build_hasher().finish() % 1024) as f64 / 1024.0
    }
}

/// How long to wait before the attempt that follows `attempts` failed ones; nothing where waiting
/// is of no use.
pub(crate) fn retry_delay(attempts: u32, wish: Option<Duration>, chance: f64) -> Option<Duration> {
    if let Some(wish) = wish {
        return (wish <= PATIENCE).then_some(wish);
    }
    let full = Duration::from_secs(1).saturating_mul(2_u32.saturating_pow(attempts.min(10)) / 2);
    Some(full.min(LONGEST).mul_f64(0.5 + chance / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_limit_and_a_providers_wish_counts() {
        let millis = |attempts, wish: Option<u64>, chance| {
            retry_delay(attempts, wish.map(Duration::from_secs), chance).map(|p| p.as_millis())
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
    fn chance_is_a_share() {
        for _ in 0..100 {
            assert!((0.0..1.0).contains(&SystemRetryTimer.jitter()));
        }
    }
}
