//! Removal of the data that the retention rule does not keep.

use skill_format::Digest;
use ulid::Ulid;

use super::{DbResult, LedgerTransaction, SqlDigest};
use crate::records::retention::{PruneReport, RetentionRule};
use crate::records::usage::utc_day;

/// A day in milliseconds.
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Selects the versions that the rule does not keep: neither the first of their skill, nor
/// approved, nor among the newest, nor the last of their day, nor young.
const EXPIRED: &str = "
CREATE TEMP TABLE expired AS
SELECT seq, skill_id, number FROM (
    SELECT seq, skill_id, number, created_ms, approved_by, tree,
        row_number() OVER (PARTITION BY skill_id ORDER BY number DESC) AS nth,
        row_number() OVER (PARTITION BY skill_id ORDER BY number) AS age,
        row_number() OVER (
            PARTITION BY skill_id, created_ms / 86400000 ORDER BY number DESC
        ) AS of_day
    FROM versions
) AS version
WHERE nth > ?1 AND age > 1 AND approved_by IS NULL
    AND NOT (created_ms >= ?2 AND nth <= ?3)
    AND NOT (created_ms >= ?4 AND of_day = 1)
    AND NOT EXISTS (
        SELECT 1 FROM created
        WHERE created.skill_id = version.skill_id AND created.approved = version.tree
    )
    AND NOT EXISTS (
        SELECT 1 FROM approvals
        WHERE approvals.skill_id = version.skill_id AND approvals.tree = version.tree
    )
    AND NOT EXISTS (SELECT 1 FROM intents WHERE before = version.seq AND state = 'pending')";

/// Selects the contents without any reference.
const UNUSED: &str = "
CREATE TEMP TABLE unused AS
SELECT digest, length(content) AS bytes FROM blobs WHERE digest NOT IN (
    SELECT digest FROM version_files
    UNION SELECT old FROM intent_files WHERE old IS NOT NULL
    UNION SELECT new FROM intent_files WHERE new IS NOT NULL
    UNION SELECT base FROM proposals WHERE base IS NOT NULL AND (
        state IN ('open', 'approved', 'stale', 'failed')
        OR coalesce(decided_ms, created_ms) >= ?1)
    UNION SELECT new FROM proposals WHERE
        state IN ('open', 'approved', 'stale', 'failed')
        OR coalesce(decided_ms, created_ms) >= ?1
)";

impl LedgerTransaction<'_> {
    /// Removes the data that a rule does not keep.
    pub(crate) fn prune(&self, rule: &RetentionRule) -> DbResult<PruneReport> {
        let now = self.stamp.now_ms;
        let ago = |days: u32| now.saturating_sub(i64::from(days).saturating_mul(DAY_MS));
        let window = ago(rule.days);
        self.tx.execute(
            EXPIRED,
            (rule.newest, window, rule.newest_in_days.max(rule.newest), ago(rule.daily_days)),
        )?;
        let mut report = PruneReport::default();
        let count = "SELECT count(*), count(DISTINCT skill_id) FROM expired";
        (report.versions, report.skills) = self.tx.query_row(count, [], |row| {
            Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64))
        })?;
        // Ids sort by their time, so that an id without a random part equals the time itself.
        let before = Ulid::from_parts(u64::try_from(window).unwrap_or(0), 0).to_string();
        self.tx.execute(
            "DELETE FROM intent_files WHERE intent IN
                 (SELECT seq FROM intents WHERE state <> 'pending' AND id < ?1)",
            [&before],
        )?;
        self.tx.execute("DELETE FROM intents WHERE state <> 'pending' AND id < ?1", [&before])?;
        // Foreign keys are off here: references to removed versions would dangle.
        self.tx.execute_batch(
            "UPDATE intents SET before = NULL WHERE before IN (SELECT seq FROM expired);",
        )?;
        for sql in [
            // These entries would refer to versions that no longer exist.
            "DELETE FROM audit WHERE action = 'version.created' AND seq IN (
                 SELECT audit.seq FROM expired JOIN audit
                 ON audit.skill_id = expired.skill_id AND audit.version = expired.number
                 WHERE audit.action = 'version.created')",
            "DELETE FROM version_files WHERE version IN (SELECT seq FROM expired)",
            "DELETE FROM versions WHERE seq IN (SELECT seq FROM expired)",
            "DROP TABLE expired",
        ] {
            self.tx.execute(sql, [])?;
        }
        // Only now: the removed versions no longer refer to their contents.
        self.tx.execute(UNUSED, [window])?;
        let count = "SELECT count(*), coalesce(sum(bytes), 0) FROM unused";
        (report.texts, report.bytes) = self.tx.query_row(count, [], |row| {
            Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64))
        })?;
        self.tx.execute("DELETE FROM blobs WHERE digest IN (SELECT digest FROM unused)", [])?;
        self.tx.execute("DROP TABLE unused", [])?;
        report.readings = self.tx.execute(
            "DELETE FROM activations WHERE at_ms < ?1
                 OR seq <= (SELECT max(seq) FROM activations) - ?2",
            (ago(rule.reading_days), rule.readings),
        )? as u64;
        let usage = "DELETE FROM usage_days WHERE day < ?1";
        report.usage_rows = self.tx.execute(usage, [utc_day(ago(rule.usage_days))])? as u64;
        Ok(report)
    }

    /// Returns the last version of each skill with the digest of its SKILL.md.
    pub(crate) fn last_texts(&self) -> DbResult<Vec<(String, Option<Digest>)>> {
        let sql = "SELECT last.skill_id, (
                 SELECT digest FROM version_files AS files
                 WHERE files.version = last.seq AND path IN ('SKILL.md', 'skill.md')
                 ORDER BY path LIMIT 1)
             FROM (SELECT skill_id, max(number) AS number FROM versions GROUP BY skill_id) AS newest
             JOIN versions AS last
             ON last.skill_id = newest.skill_id AND last.number = newest.number";
        self.select_rows(sql, [], |row| {
            Ok((row.get(0)?, row.get::<_, Option<SqlDigest>>(1)?.map(|hash| hash.0)))
        })
    }
}
