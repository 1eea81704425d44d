//! A clock that advances only while activities are under way.

use std::time::Duration;

use tokio::time::Instant;

/// The time during which at least one activity was under way. Activities at the same time count
/// once.
#[derive(Debug, Default)]
pub(super) struct ActiveClock {
    /// The time of all finished stretches.
    elapsed: Duration,
    /// The start of the present stretch; `None` while the clock stands still.
    since: Option<Instant>,
    /// The number of activities under way, without those that wait.
    activities: usize,
}

impl ActiveClock {
    /// Creates a clock that stands still at a time.
    pub(super) fn new(elapsed: Duration) -> Self {
        Self { elapsed, ..Self::default() }
    }

    /// Adds an activity; returns whether the clock was started by it.
    pub(super) fn add_activity(&mut self, now: Instant) -> bool {
        self.activities += 1;
        let starts = self.activities == 1;
        if starts {
            self.since = Some(now);
        }
        starts
    }

    /// Removes an activity; returns whether the clock was stopped by it.
    pub(super) fn remove_activity(&mut self, now: Instant) -> bool {
        self.activities = self.activities.saturating_sub(1);
        let stops = self.activities == 0 && self.since.is_some();
        if stops {
            self.elapsed = self.elapsed(now);
            self.since = None;
        }
        stops
    }

    /// Returns the time so far.
    pub(super) fn elapsed(&self, now: Instant) -> Duration {
        let stretch = self.since.map(|since| now.saturating_duration_since(since));
        self.elapsed.saturating_add(stretch.unwrap_or_default())
    }

    /// Returns the moment at which a limit will be reached, or `None` while the clock stands still.
    pub(super) fn reaches(&self, limit: Duration, now: Instant) -> Option<Instant> {
        self.since?;
        // A limit of centuries is never reached, and its moment has no representation.
        now.checked_add(limit.saturating_sub(self.elapsed(now)))
    }
}
