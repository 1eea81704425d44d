//! The use of skills by day and agent.

use rusqlite::Row;

use super::{DbResult, LedgerTransaction};
use crate::records::activation::{ActivationKind, SkillActivation};
use crate::records::usage::{SkillUsage, UsageCounts, UsageDay, UsageMap, utc_day};

/// The columns of the counts, summed up.
const SUMS: &str = "sum(offered), sum(surfaced), sum(reads), sum(resource_reads), sum(bounced), \
                    sum(scripts)";

impl LedgerTransaction<'_> {
    /// Adds counts to those of the day.
    pub(crate) fn add_usage(&self, usage: &UsageMap) -> DbResult<()> {
        let mut statement = self.tx.prepare(
            "INSERT INTO usage_days
                 (day, skill_id, agent_id, offered, surfaced, reads, resource_reads, bounced, scripts)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT DO UPDATE SET
                 offered = offered + excluded.offered,
                 surfaced = surfaced + excluded.surfaced,
                 reads = reads + excluded.reads,
                 resource_reads = resource_reads + excluded.resource_reads,
                 bounced = bounced + excluded.bounced,
                 scripts = scripts + excluded.scripts",
        )?;
        for ((day, skill_id, agent_id), counts) in usage {
            // The counts of one interval are far below the limit of the column.
            let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
            statement.execute((
                day,
                &**skill_id,
                &**agent_id,
                count(counts.offered),
                count(counts.surfaced),
                count(counts.reads),
                count(counts.resource_reads),
                count(counts.bounced),
                count(counts.scripts),
            ))?;
        }
        Ok(())
    }

    /// Sums up the use of each skill from a day on, sorted by id.
    pub(crate) fn skill_usage(&self, since_day: i64) -> DbResult<Vec<SkillUsage>> {
        let sql = format!(
            "SELECT skill_id, count(DISTINCT CASE WHEN offered > 0 THEN day END), {SUMS}
             FROM usage_days WHERE day >= ?1 GROUP BY skill_id ORDER BY skill_id"
        );
        self.select_rows(&sql, [since_day], |row| {
            Ok(SkillUsage {
                skill_id: row.get(0)?,
                days_offered: row.get::<_, i64>(1)? as u64,
                counts: counts_from_row(row, 2)?,
            })
        })
    }

    /// Returns the use of a skill by day and agent from a day on, in order.
    pub(crate) fn usage_days(&self, skill_id: &str, since_day: i64) -> DbResult<Vec<UsageDay>> {
        let sql = format!(
            "SELECT day, agent_id, {SUMS} FROM usage_days WHERE skill_id = ?1 AND day >= ?2
             GROUP BY day, agent_id ORDER BY day, agent_id"
        );
        self.select_rows(&sql, (skill_id, since_day), |row| {
            let counts = counts_from_row(row, 2)?;
            Ok(UsageDay { day: row.get(0)?, agent_id: row.get(1)?, counts })
        })
    }
}

/// Returns the counts of reads. Reads of operators are no use by an agent.
pub(crate) fn count_reads(batch: &[SkillActivation]) -> UsageMap {
    let mut usage = UsageMap::new();
    for reading in batch.iter().filter(|reading| reading.origin != "operator") {
        let key = (utc_day(reading.at_ms), &*reading.skill_id, &*reading.agent_id);
        let counts = usage.entry((key.0, key.1.into(), key.2.into())).or_default();
        match reading.kind {
            ActivationKind::Skill => counts.reads += 1,
            ActivationKind::Resource => counts.resource_reads += 1,
        }
    }
    usage
}

fn counts_from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<UsageCounts> {
    let count = |at: usize| row.get::<_, i64>(first + at).map(|count| count as u64);
    Ok(UsageCounts {
        offered: count(0)?,
        surfaced: count(1)?,
        reads: count(2)?,
        resource_reads: count(3)?,
        bounced: count(4)?,
        scripts: count(5)?,
    })
}
