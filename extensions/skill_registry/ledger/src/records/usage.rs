//! Counts of the use of skills by day.

use std::collections::HashMap;

use serde::Serialize;

/// A day in milliseconds.
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Returns the UTC day of a time in milliseconds since 1970, counted from 1970-01-01.
#[must_use]
pub fn utc_day(at_ms: i64) -> i64 {
    at_ms.div_euclid(DAY_MS)
}

/// The counts of one skill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UsageCounts {
    /// The number of turns whose block listed the skill.
    pub offered: u64,
    /// The number of turns whose block described the skill because it matched the prompt.
    pub surfaced: u64,
    /// The number of reads of its instructions.
    pub reads: u64,
    /// The number of reads of its resources.
    pub resource_reads: u64,
    /// The number of runs of its scripts.
    pub scripts: u64,
    /// The number of reads of its instructions after which another skill was read within three tool
    /// calls, and this one was not used.
    pub bounced: u64,
}

impl UsageCounts {
    /// Adds other counts.
    pub fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.surfaced += other.surfaced;
        self.reads += other.reads;
        self.resource_reads += other.resource_reads;
        self.scripts += other.scripts;
        self.bounced += other.bounced;
    }
}

/// The use of a skill by one agent on one day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UsageDay {
    /// The UTC day, counted from 1970-01-01.
    pub day: i64,
    /// The agent.
    pub agent_id: String,
    /// The counts.
    #[serde(flatten)]
    pub counts: UsageCounts,
}

/// The use of a skill by all agents in a period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillUsage {
    /// The skill.
    pub skill_id: String,
    /// The number of days on which it was offered.
    pub days_offered: u64,
    /// The counts.
    #[serde(flatten)]
    pub counts: UsageCounts,
}

/// Identifies a row: the day, the skill and the agent.
pub(crate) type UsageKey = (i64, Box<str>, Box<str>);

/// Counts that are not written yet.
pub(crate) type UsageMap = HashMap<UsageKey, UsageCounts>;
