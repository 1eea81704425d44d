//! The rate at which a person may send messages.

use std::collections::HashMap;

/// The time in which the number of messages is counted, and in which a person gets one reply about it.
const PERIOD_MS: u64 = 60_000;
/// The number of buckets from which on full ones are removed.
const MAX_BUCKETS: usize = 1_024;

/// Token buckets, one per channel and person. They are not stored: a restart fills them.
#[derive(Default)]
pub(crate) struct RateLimiter {
    buckets: HashMap<(String, String), TokenBucket>,
}

struct TokenBucket {
    /// The messages that are left, in parts of the period: one message per minute gains one part in
    /// a millisecond.
    left: u64,
    filled_ms: u64,
    /// The time of the last reply about the limit.
    notified_ms: Option<u64>,
}

/// The outcome for one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RateVerdict {
    Within,
    /// Over the limit; the first one in a minute is answered.
    Exceeded {
        notify: bool,
        /// The time until the next message is within the limit.
        wait_ms: u64,
    },
}

impl RateLimiter {
    /// Counts a message of a person at a time.
    pub(crate) fn count(
        &mut self,
        channel: &str,
        peer: &str,
        per_minute: u32,
        now_ms: u64,
    ) -> RateVerdict {
        let capacity = u64::from(per_minute) * PERIOD_MS;
        if self.buckets.len() >= MAX_BUCKETS {
            // A full bucket is the same as none.
            self.buckets.retain(|_, bucket| now_ms.saturating_sub(bucket.filled_ms) < PERIOD_MS);
        }
        let new = || TokenBucket { left: capacity, filled_ms: now_ms, notified_ms: None };
        let bucket = self.buckets.entry((channel.to_owned(), peer.to_owned())).or_insert_with(new);
        let gained = u64::from(per_minute).saturating_mul(now_ms.saturating_sub(bucket.filled_ms));
        bucket.left = bucket.left.saturating_add(gained).min(capacity);
        bucket.filled_ms = now_ms;
        if bucket.left >= PERIOD_MS {
            bucket.left -= PERIOD_MS;
            return RateVerdict::Within;
        }
        let is_due = |at: u64| now_ms.saturating_sub(at) >= PERIOD_MS;
        let notify = bucket.notified_ms.is_none_or(is_due);
        if notify {
            bucket.notified_ms = Some(now_ms);
        }
        // The settings have a limit above zero.
        let wait_ms = (PERIOD_MS - bucket.left).div_ceil(u64::from(per_minute.max(1)));
        RateVerdict::Exceeded { notify, wait_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_refills_and_notifies_once() {
        let mut limiter = RateLimiter::default();
        let mut count = |now_ms| limiter.count("c", "p", 20, now_ms);
        for _ in 0..20 {
            assert_eq!(count(1_000), RateVerdict::Within);
        }
        assert_eq!(count(1_000), RateVerdict::Exceeded { notify: true, wait_ms: 3_000 });
        assert_eq!(count(1_500), RateVerdict::Exceeded { notify: false, wait_ms: 2_500 });
        // 100 messages a second: one reply, and one message per three seconds.
        let verdicts: Vec<_> = (0..3_000).map(|n| count(1_500 + n * 10)).collect();
        let within = verdicts.iter().filter(|it| **it == RateVerdict::Within).count();
        assert!((9..=10).contains(&within), "{within}");
        let is_notified =
            |verdict: &RateVerdict| matches!(verdict, RateVerdict::Exceeded { notify: true, .. });
        assert!(!verdicts.iter().any(is_notified));
        assert_eq!(limiter.count("c", "other", 20, 1_000), RateVerdict::Within);
        let mut count = |now_ms| limiter.count("c", "p", 20, now_ms);
        let later: Vec<_> = (0..40).map(|_| count(300_000)).collect();
        assert_eq!(later.iter().filter(|it| **it == RateVerdict::Within).count(), 20);
        assert!(later.iter().any(is_notified));
    }
}
