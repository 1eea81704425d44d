//! The rule of the retention, and the report of what it removed.

use std::time::Duration;

use serde::Serialize;

/// The rule that decides which versions, texts and reads are kept.
///
/// The first version of a skill, every version that a person approved, and all data of open
/// proposals and unfinished changes are always kept. The audit log is kept, except for the entries
/// about removed versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RetentionRule {
    /// The number of newest versions of each skill that are kept, regardless of their age.
    pub newest: u32,
    /// The number of days for which direct edits are kept, and the texts of decided proposals.
    pub days: u32,
    /// The number of newest versions of each skill that are kept for these days.
    pub newest_in_days: u32,
    /// The number of days for which the last version of each day is kept.
    pub daily_days: u32,
    /// The number of newest reads that are kept.
    pub readings: u32,
    /// The number of days for which reads are kept.
    pub reading_days: u32,
    /// The number of days for which the use of each day is kept.
    pub usage_days: u32,
}

impl Default for RetentionRule {
    fn default() -> Self {
        Self {
            newest: 20,
            days: 30,
            newest_in_days: 100,
            daily_days: 90,
            readings: 100_000,
            reading_days: 365,
            usage_days: 400,
        }
    }
}

impl RetentionRule {
    /// The number of versions after which a running registry applies the rule again.
    pub(crate) const VERSIONS_BETWEEN: usize = 1_000;

    /// The time after which a running registry applies the rule again.
    pub(crate) const INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
}

/// The number of removed entries, and the size of the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PruneReport {
    /// The number of versions.
    pub versions: u64,
    /// The number of skills to which they belonged.
    pub skills: u64,
    /// The number of texts without any other reference.
    pub texts: u64,
    /// The bytes of these texts.
    pub bytes: u64,
    /// The number of reads.
    pub readings: u64,
    /// The number of rows of the use of a day.
    pub usage_rows: u64,
    /// The size of the database's file before, in bytes.
    pub file_before: u64,
    /// The size of the file after.
    pub file_after: u64,
}

impl PruneReport {
    /// Returns `true` if no version, text or read was removed. Rows of the use expire every day and
    /// are small, so they alone make no report.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.versions == 0 && self.texts == 0 && self.readings == 0
    }
}
