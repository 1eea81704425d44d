//! Versions of skills: trees of digests, and the contents with these digests.

use std::sync::Arc;

use rusqlite::{OptionalExtension, Row};
use skill_format::Digest;

use super::{DbResult, LedgerTransaction, SqlDigest, SqlJson};
use crate::records::version::{SkillVersion, VersionAuthor, VersionFile};

/// A version that is not recorded yet.
#[derive(Clone, Debug)]
pub(crate) struct NewVersion<'a> {
    pub(crate) skill_id: &'a str,
    pub(crate) author: &'a VersionAuthor,
    pub(crate) approved_by: Option<&'a str>,
    pub(crate) reason: Option<&'a str>,
    pub(crate) proposal: Option<&'a str>,
    pub(crate) tree: Digest,
    /// Sorted by path; the contents have to be stored before.
    pub(crate) files: &'a [VersionFile],
    pub(crate) complete: bool,
    pub(crate) root: &'a str,
    pub(crate) place: &'a str,
}

/// A version with its number in the database and its location.
#[derive(Clone, Debug)]
pub(crate) struct StoredVersion {
    pub(crate) seq: u64,
    pub(crate) version: SkillVersion,
    /// The label of the skill's root at that time.
    pub(crate) root: String,
    /// The skill's directory below that root.
    pub(crate) place: String,
}

const COLUMNS: &str = "seq, number, id, created_ms, author, approved_by, reason, proposal, tree,
    files, bytes, complete, root, place";

impl LedgerTransaction<'_> {
    /// Stores contents.
    pub(crate) fn add_blobs<'b>(
        &self,
        blobs: impl IntoIterator<Item = (Digest, &'b [u8])>,
    ) -> DbResult<()> {
        // A content that was damaged on the disk is replaced by the same, intact content.
        let sql = "INSERT INTO blobs (digest, content) VALUES (?1, ?2)
             ON CONFLICT (digest) DO UPDATE SET content = excluded.content
             WHERE content <> excluded.content";
        let mut statement = self.tx.prepare(sql)?;
        for (digest, content) in blobs {
            statement.execute((SqlDigest(digest), content))?;
        }
        Ok(())
    }

    /// Returns a content, or `None` if it is not stored or no longer has its digest.
    pub(crate) fn blob(&self, digest: Digest) -> DbResult<Option<Arc<[u8]>>> {
        let sql = "SELECT content FROM blobs WHERE digest = ?1";
        let mut statement = self.tx.prepare_cached(sql)?;
        let content: Option<Arc<[u8]>> = statement
            .query_row([SqlDigest(digest)], |row| Ok(Arc::from(row.get_ref(0)?.as_blob()?)))
            .optional()?;
        Ok(content.filter(|content| Digest::compute(content) == digest))
    }

    /// Records a version; returns its number in the database.
    pub(crate) fn add_version(
        &self,
        new: &NewVersion<'_>,
        changed: u64,
        number: u64,
    ) -> DbResult<u64> {
        let bytes: u64 = new.files.iter().map(|file| file.size).sum();
        let id = self.new_id()?;
        self.tx.execute(
            "INSERT INTO versions
                 (id, changed, skill_id, number, created_ms, author, approved_by, reason, proposal,
                  tree, files, bytes, complete, root, place)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
            (
                &id,
                changed as i64,
                new.skill_id,
                number as i64,
                self.stamp.now_ms,
                SqlJson(new.author),
                new.approved_by,
                new.reason,
                new.proposal,
                SqlDigest(new.tree),
                new.files.len() as i64,
                bytes as i64,
                new.complete,
                new.root,
                new.place,
            ),
        )?;
        // Before the files are added: every insertion changes it.
        let seq = self.tx.last_insert_rowid();
        let mut statement = self.tx.prepare(
            "INSERT INTO version_files (version, path, mode, size, digest)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        for file in new.files {
            let size = file.size as i64;
            statement.execute((seq, &file.path, file.mode, size, SqlDigest(file.digest)))?;
        }
        Ok(seq as u64)
    }

    /// Returns the number of the next version of a skill.
    pub(crate) fn next_number(&self, skill_id: &str) -> DbResult<u64> {
        let sql = "SELECT coalesce(max(number), 0) + 1 FROM versions WHERE skill_id = ?1";
        Ok(self.tx.query_row(sql, [skill_id], |row| row.get::<_, i64>(0))? as u64)
    }

    /// Returns the versions of a skill, the oldest first.
    pub(crate) fn versions(&self, skill_id: &str) -> DbResult<Vec<StoredVersion>> {
        let sql = format!("SELECT {COLUMNS} FROM versions WHERE skill_id = ?1 ORDER BY number");
        self.select_rows(&sql, [skill_id], version_from_row)
    }

    /// Finds a version of a skill; the last one if `number` is `None`.
    pub(crate) fn version(
        &self,
        skill_id: &str,
        number: Option<u64>,
    ) -> DbResult<Option<StoredVersion>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM versions WHERE skill_id = ?1 AND (?2 IS NULL OR number = ?2)
             ORDER BY number DESC LIMIT 1"
        );
        let number = number.map(|number| number as i64);
        Ok(self.tx.query_row(&sql, (skill_id, number), version_from_row).optional()?)
    }

    /// Returns the files of a version, sorted by path, without their contents.
    pub(crate) fn version_listing(&self, seq: u64) -> DbResult<Vec<VersionFile>> {
        let sql =
            "SELECT path, mode, size, digest FROM version_files WHERE version = ?1 ORDER BY path";
        self.select_rows(sql, [seq as i64], |row| {
            Ok(VersionFile {
                path: row.get(0)?,
                mode: row.get(1)?,
                size: row.get::<_, i64>(2)? as u64,
                digest: row.get::<_, SqlDigest>(3)?.0,
                content: Arc::default(),
            })
        })
    }

    /// Returns the ids of the latest proposals whose new text has a digest.
    pub(crate) fn proposals_making(&self, new: Digest) -> DbResult<Vec<String>> {
        let sql = "SELECT id FROM proposals WHERE new = ?1 ORDER BY seq DESC LIMIT 16";
        self.select_texts(sql, [SqlDigest(new)])
    }

    /// Returns the number of the version before another one.
    pub(crate) fn number_before(&self, skill_id: &str, number: u64) -> DbResult<Option<u64>> {
        let sql = "SELECT max(number) FROM versions WHERE skill_id = ?1 AND number < ?2";
        let before: Option<i64> =
            self.tx.query_row(sql, (skill_id, number as i64), |row| row.get(0))?;
        Ok(before.map(|number| number as u64))
    }

    /// Returns the ids of the skills that have a version, sorted.
    pub(crate) fn versioned_skills(&self) -> DbResult<Vec<String>> {
        let sql = "SELECT DISTINCT skill_id FROM versions ORDER BY skill_id";
        self.select_texts(sql, [])
    }
}

fn version_from_row(row: &Row<'_>) -> rusqlite::Result<StoredVersion> {
    let version = SkillVersion {
        number: row.get::<_, i64>(1)? as u64,
        id: row.get(2)?,
        created_ms: row.get(3)?,
        author: row.get::<_, SqlJson<VersionAuthor>>(4)?.0,
        approved_by: row.get(5)?,
        reason: row.get(6)?,
        proposal: row.get(7)?,
        tree: row.get::<_, SqlDigest>(8)?.0,
        files: row.get::<_, i64>(9)? as usize,
        bytes: row.get::<_, i64>(10)? as u64,
        complete: row.get(11)?,
    };
    let seq = row.get::<_, i64>(0)? as u64;
    Ok(StoredVersion { seq, version, root: row.get(12)?, place: row.get(13)? })
}
