//! Skills that agents created.

use rusqlite::OptionalExtension;
use skill_format::Digest;

use super::{Hash, Json, Result, Tx};
use crate::ledger::Author;

/// A skill that an agent created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Created {
    pub(crate) skill_id: String,
    pub(crate) author: Author,
    /// The tree that a person approved.
    pub(crate) approved: Option<Digest>,
    pub(crate) approved_by: Option<String>,
}

impl Created {
    /// Stands for every skill without a record: which of them agents created is not known, because the
    /// records were lost.
    ///
    /// No skill has this id, so earlier versions of the program ignore it.
    pub(crate) fn unknown_origins() -> Self {
        let (author, approved, approved_by) = (Author::default(), None, None);
        Self { skill_id: String::new(), author, approved, approved_by }
    }

    /// Tells whether this is [`Created::unknown_origins`].
    pub(crate) fn is_unknown_origins(&self) -> bool {
        self.skill_id.is_empty()
    }
}

impl Tx<'_> {
    /// Records that the origin of every skill is known again.
    pub(crate) fn drop_unknown_origins(&self) -> Result<()> {
        self.tx.execute("DELETE FROM created WHERE skill_id = ''", [])?;
        Ok(())
    }

    /// Records a skill that an agent created, in place of what was recorded before.
    pub(crate) fn put_created(&self, created: &Created, changed: u64) -> Result<()> {
        self.tx.execute(
            "INSERT OR REPLACE INTO created (skill_id, changed, author, approved, approved_by)
             VALUES (?1, ?2, ?3, ?4, ?5)",
            (
                &created.skill_id,
                changed as i64,
                Json(&created.author),
                created.approved.map(Hash),
                &created.approved_by,
            ),
        )?;
        Ok(())
    }

    /// Finds a skill that an agent created.
    pub(crate) fn created(&self, skill_id: &str) -> Result<Option<Created>> {
        let sql = "SELECT skill_id, author, approved, approved_by FROM created WHERE skill_id = ?1";
        Ok(self.tx.query_row(sql, [skill_id], created).optional()?)
    }

    /// Returns the skills that agents created, sorted by id.
    pub(crate) fn all_created(&self) -> Result<Vec<Created>> {
        let sql = "SELECT skill_id, author, approved, approved_by FROM created ORDER BY skill_id";
        let mut statement = self.tx.prepare(sql)?;
        let rows = statement.query_map([], created)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

fn created(row: &rusqlite::Row<'_>) -> rusqlite::Result<Created> {
    Ok(Created {
        skill_id: row.get(0)?,
        author: row.get::<_, Json<Author>>(1)?.0,
        approved: row.get::<_, Option<Hash>>(2)?.map(|hash| hash.0),
        approved_by: row.get(3)?,
    })
}
