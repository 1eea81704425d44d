//! Records of skills that agents created.

use rusqlite::OptionalExtension;
use skill_catalog::AgentAuthor;
use skill_format::Digest;

use super::{DbResult, LedgerTransaction, SqlDigest, SqlJson};

/// The record of a skill that an agent created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CreatedSkillRow {
    pub(crate) skill_id: String,
    pub(crate) author: AgentAuthor,
    /// The tree that a person approved.
    pub(crate) approved: Option<Digest>,
    pub(crate) approved_by: Option<String>,
}

impl CreatedSkillRow {
    /// Returns the row that represents every skill without a record: the records were lost, so that
    /// any of them may have been created by an agent.
    ///
    /// No skill has this id, so earlier versions of the program ignore it.
    pub(crate) fn unknown_origins() -> Self {
        let (author, approved, approved_by) = (AgentAuthor::default(), None, None);
        Self { skill_id: String::new(), author, approved, approved_by }
    }

    /// Returns `true` for [`CreatedSkillRow::unknown_origins`].
    pub(crate) fn is_unknown_origins(&self) -> bool {
        self.skill_id.is_empty()
    }
}

impl LedgerTransaction<'_> {
    /// Removes the row of unknown origins, once every skill has a record.
    pub(crate) fn drop_unknown_origins(&self) -> DbResult<()> {
        self.tx.execute("DELETE FROM created WHERE skill_id = ''", [])?;
        Ok(())
    }

    /// Records a skill that an agent created, and replaces its former record.
    pub(crate) fn put_created(&self, created: &CreatedSkillRow, changed: u64) -> DbResult<()> {
        self.tx.execute(
            "INSERT OR REPLACE INTO created (skill_id, changed, author, approved, approved_by)
             VALUES (?1, ?2, ?3, ?4, ?5)",
            (
                &created.skill_id,
                changed as i64,
                SqlJson(&created.author),
                created.approved.map(SqlDigest),
                &created.approved_by,
            ),
        )?;
        Ok(())
    }

    /// Returns the record of a skill, if an agent created it.
    pub(crate) fn created(&self, skill_id: &str) -> DbResult<Option<CreatedSkillRow>> {
        let sql = "SELECT skill_id, author, approved, approved_by FROM created WHERE skill_id = ?1";
        Ok(self.tx.query_row(sql, [skill_id], row_to_created).optional()?)
    }

    /// Returns the records of skills that agents created, sorted by id.
    pub(crate) fn all_created(&self) -> DbResult<Vec<CreatedSkillRow>> {
        let sql = "SELECT skill_id, author, approved, approved_by FROM created ORDER BY skill_id";
        self.select_rows(sql, [], row_to_created)
    }
}

fn row_to_created(row: &rusqlite::Row<'_>) -> rusqlite::Result<CreatedSkillRow> {
    Ok(CreatedSkillRow {
        skill_id: row.get(0)?,
        author: row.get::<_, SqlJson<AgentAuthor>>(1)?.0,
        approved: row.get::<_, Option<SqlDigest>>(2)?.map(|hash| hash.0),
        approved_by: row.get(3)?,
    })
}
