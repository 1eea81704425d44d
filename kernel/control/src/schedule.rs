//! Scheduled jobs as a kernel lists and runs them.

use serde::{Deserialize, Serialize};

/// A schedule with its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleSummary {
    /// The id, `extension/name`.
    pub id: String,
    /// The cron pattern.
    pub cron: String,
    /// The time zone of the pattern.
    pub timezone: String,
    /// The action: `task poll`, `tool rss_poll` or `prompt`.
    pub action: String,
    /// The next due time under `skillhost run`, in milliseconds since 1970.
    pub next_ms: Option<u64>,
    /// The next due time for display, in the schedule's time zone.
    pub next: String,
    /// True if a run is active.
    pub running: bool,
    /// The last run; `None` before the first due time.
    pub last: Option<LastRun>,
}

/// The outcome of the last due time of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastRun {
    /// The due time, or the start of a manual run; in milliseconds since 1970.
    pub at_ms: u64,
    /// The same time for display, in the schedule's time zone.
    pub at: String,
    /// The duration of the run; `None` if it did not start or its end is unknown.
    pub took_ms: Option<u64>,
    /// The error of a failed run.
    pub error: Option<String>,
}

/// The outcome of a successful run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleRunOutcome {
    /// The id of the schedule, `extension/name`.
    pub schedule: String,
    /// The duration, in milliseconds.
    pub ms: u64,
    /// One line of the result.
    pub result: Option<String>,
}
