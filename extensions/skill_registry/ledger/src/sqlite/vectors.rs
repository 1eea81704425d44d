//! Vectors of skills, made by embedding models.

use skill_format::Digest;

use super::{DbResult, LedgerTransaction, SqlDigest};

impl LedgerTransaction<'_> {
    /// Returns the vectors of a model, by the digest of the text.
    pub(crate) fn vectors(&self, model: &str) -> DbResult<Vec<(Digest, Vec<u8>)>> {
        let sql = "SELECT digest, vectors FROM vectors WHERE model = ?1";
        self.select_rows(sql, [model], |row| Ok((row.get::<_, SqlDigest>(0)?.0, row.get(1)?)))
    }

    /// Stores vectors of a model, and replaces those of the same text.
    pub(crate) fn put_vectors(&self, model: &str, rows: &[(Digest, Vec<u8>)]) -> DbResult<()> {
        let mut statement = self.tx.prepare(
            "INSERT OR REPLACE INTO vectors (digest, model, vectors) VALUES (?1, ?2, ?3)",
        )?;
        for (digest, vectors) in rows {
            statement.execute((SqlDigest(*digest), model, vectors))?;
        }
        Ok(())
    }

    /// Removes vectors of a model.
    pub(crate) fn drop_vectors(&self, model: &str, gone: &[Digest]) -> DbResult<()> {
        let mut statement =
            self.tx.prepare("DELETE FROM vectors WHERE model = ?1 AND digest = ?2")?;
        for digest in gone {
            statement.execute((model, SqlDigest(*digest)))?;
        }
        Ok(())
    }
}
