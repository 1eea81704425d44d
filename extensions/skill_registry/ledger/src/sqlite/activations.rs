//! The log of reads of skills, and its statistics.

use rusqlite::Row;

use super::{DbResult, LedgerTransaction, SqlDigest};
use crate::records::activation::{ActivationKind, SkillActivation, SkillStats};

impl LedgerTransaction<'_> {
    /// Adds reads.
    pub(crate) fn add_activations(&self, batch: &[SkillActivation]) -> DbResult<()> {
        let mut statement = self.tx.prepare(
            "INSERT INTO activations
                 (at_ms, skill_id, kind, path, digest, agent_id, session_id, turn_id, origin, tokens)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?;
        for reading in batch {
            let kind = match reading.kind {
                ActivationKind::Skill => "skill",
                ActivationKind::Resource => "resource",
            };
            statement.execute((
                reading.at_ms,
                &reading.skill_id,
                kind,
                &reading.path,
                reading.digest.map(SqlDigest),
                &reading.agent_id,
                &reading.session_id,
                &reading.turn_id,
                &reading.origin,
                reading.tokens,
            ))?;
        }
        Ok(())
    }

    /// Sums up the reads by skill, the most read skill first.
    pub(crate) fn activation_stats(&self, since_ms: i64) -> DbResult<Vec<SkillStats>> {
        let sql = "SELECT skill_id, sum(kind = 'skill') AS reads, sum(kind = 'resource'),
                 count(DISTINCT agent_id), count(DISTINCT session_id), sum(tokens), max(at_ms)
             FROM activations WHERE at_ms >= ?1
             GROUP BY skill_id ORDER BY reads DESC, skill_id";
        self.select_rows(sql, [since_ms], stats_from_row)
    }
}

fn stats_from_row(row: &Row<'_>) -> rusqlite::Result<SkillStats> {
    let count = |at| row.get::<_, i64>(at).map(|count| count as u64);
    Ok(SkillStats {
        skill_id: row.get(0)?,
        reads: count(1)?,
        resource_reads: count(2)?,
        agents: count(3)?,
        sessions: count(4)?,
        tokens: count(5)?,
        last_ms: row.get(6)?,
    })
}
