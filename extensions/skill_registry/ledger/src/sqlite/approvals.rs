//! Approvals of skills that no agent created.

use rusqlite::OptionalExtension;
use skill_format::Digest;

use super::{DbResult, LedgerTransaction, SqlDigest};

impl LedgerTransaction<'_> {
    /// Records the tree of a skill that a person approved, and replaces the former one.
    pub(crate) fn put_approval(
        &self,
        skill_id: &str,
        tree: Digest,
        by: &str,
        changed: u64,
    ) -> DbResult<()> {
        self.tx.execute(
            "INSERT OR REPLACE INTO approvals (skill_id, changed, tree, approved_by)
             VALUES (?1, ?2, ?3, ?4)",
            (skill_id, changed as i64, SqlDigest(tree), by),
        )?;
        Ok(())
    }

    /// Returns the approved tree of a skill.
    pub(crate) fn approval(&self, skill_id: &str) -> DbResult<Option<Digest>> {
        let sql = "SELECT tree FROM approvals WHERE skill_id = ?1";
        let tree =
            self.tx.query_row(sql, [skill_id], |row| row.get::<_, SqlDigest>(0)).optional()?;
        Ok(tree.map(|hash| hash.0))
    }
}
