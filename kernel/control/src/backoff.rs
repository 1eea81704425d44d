//! The decision about a restart after an exit.

use std::collections::VecDeque;
use std::time::Duration;

/// The limits of restarts after crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartLimits {
    /// The number of crashes within `within` after which the process is not restarted.
    pub crashes: u32,
    /// The age from which a crash no longer counts.
    pub within: Duration,
    /// The pause after the first crash; it doubles with every further one that counts.
    pub delay: Duration,
}

impl Default for RestartLimits {
    fn default() -> Self {
        let (within, delay) = (Duration::from_secs(300), Duration::from_secs(1));
        Self { crashes: 5, within, delay }
    }
}

/// The number of requested restarts without a pause, per crash that counts. A person approves one
/// at a time; only an extension that requests one at every start exceeds this.
const MAX_FREE_RESTARTS: usize = 2;

/// The longest pause.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// The cause of a process's exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCause {
    /// The process requested its restart.
    RestartRequested,
    /// The process crashed.
    Crashed,
}

/// The decision after an exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartDecision {
    /// Restart the process after a pause.
    Restart(Duration),
    /// Do not restart; the number of exits of that kind within the window.
    Stop(usize),
}

/// The exit history of a process. The caller supplies the time, from any origin, never decreasing.
#[derive(Debug)]
pub struct RestartBackoff {
    limits: RestartLimits,
    crashes: VecDeque<Duration>,
    requested: VecDeque<Duration>,
}

impl RestartBackoff {
    /// Creates an empty history.
    #[must_use]
    pub fn new(limits: RestartLimits) -> Self {
        Self { limits, crashes: VecDeque::new(), requested: VecDeque::new() }
    }

    /// Records an exit and returns the decision.
    pub fn record_exit(&mut self, cause: ExitCause, now: Duration) -> RestartDecision {
        let counted = match cause {
            ExitCause::RestartRequested => &mut self.requested,
            ExitCause::Crashed => &mut self.crashes,
        };
        // Exits outside of the window no longer count.
        while counted
            .front()
            .is_some_and(|earlier| now.saturating_sub(*earlier) >= self.limits.within)
        {
            counted.pop_front();
        }
        counted.push_back(now);
        let count = counted.len();
        let crashes = usize::try_from(self.limits.crashes.max(1)).unwrap_or(usize::MAX);
        match cause {
            ExitCause::RestartRequested if count > crashes.saturating_mul(MAX_FREE_RESTARTS) => {
                RestartDecision::Stop(count)
            }
            ExitCause::RestartRequested => RestartDecision::Restart(Duration::ZERO),
            ExitCause::Crashed if count >= crashes => RestartDecision::Stop(count),
            ExitCause::Crashed => {
                let doubled = u32::try_from(count - 1).map_or(u32::MAX, |n| 1 << n.min(16));
                RestartDecision::Restart(self.limits.delay.saturating_mul(doubled).min(MAX_BACKOFF))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn restart_after(wait: u64) -> RestartDecision {
        RestartDecision::Restart(seconds(wait))
    }

    #[test]
    fn five_recent_crashes_stop_restarts() {
        let mut backoff = RestartBackoff::new(RestartLimits::default());
        let next: Vec<_> = [0, 2, 60, 200, 299]
            .map(|at| backoff.record_exit(ExitCause::Crashed, seconds(at)))
            .into();
        assert_eq!(
            next,
            [
                restart_after(1),
                restart_after(2),
                restart_after(4),
                restart_after(8),
                RestartDecision::Stop(5)
            ]
        );
    }

    #[test]
    fn old_crashes_do_not_count() {
        let mut backoff = RestartBackoff::new(RestartLimits::default());
        let at = [0, 10, 20, 30, 300, 310, 320, 400, 405];
        let next: Vec<_> = at.map(|at| backoff.record_exit(ExitCause::Crashed, seconds(at))).into();
        let expected = [1, 2, 4, 8, 8, 8, 8, 8].map(restart_after);
        assert_eq!(next[..8], expected);
        assert_eq!(next[8], RestartDecision::Stop(5));
    }

    #[test]
    fn requested_restart_needs_no_pause() {
        let mut backoff = RestartBackoff::new(RestartLimits::default());
        for at in 0..10 {
            assert_eq!(
                backoff.record_exit(ExitCause::RestartRequested, seconds(at)),
                restart_after(0)
            );
        }
        assert_eq!(backoff.record_exit(ExitCause::Crashed, seconds(10)), restart_after(1));
        assert_eq!(
            backoff.record_exit(ExitCause::RestartRequested, seconds(11)),
            RestartDecision::Stop(11)
        );
        assert_eq!(
            backoff.record_exit(ExitCause::RestartRequested, seconds(400)),
            restart_after(0)
        );
    }

    #[test]
    fn limits_bound_crashes_and_pauses() {
        let limits = RestartLimits { crashes: 40, within: seconds(1), delay: seconds(30) };
        let mut backoff = RestartBackoff::new(limits);
        let mut ended = |at| backoff.record_exit(ExitCause::Crashed, Duration::from_millis(at));
        assert_eq!(
            [ended(0), ended(1), ended(2)],
            [restart_after(30), restart_after(60), restart_after(60)]
        );
        assert_eq!(ended(2000), restart_after(30));
        for _ in 0..30 {
            ended(2001);
        }
        assert_eq!(ended(2001), restart_after(60));
        let mut once = RestartBackoff::new(RestartLimits { crashes: 0, ..limits });
        assert_eq!(once.record_exit(ExitCause::Crashed, seconds(0)), RestartDecision::Stop(1));
    }
}
