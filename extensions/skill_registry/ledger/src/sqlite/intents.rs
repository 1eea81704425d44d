//! Intents to write files, so that a change can be completed after a crash.

use std::path::PathBuf;

use rusqlite::Row;
use skill_format::Digest;

use super::{DbResult, LedgerTransaction, SqlDigest, SqlJson, path_bytes, path_from_bytes};
use crate::records::version::VersionAuthor;

/// A decided change of a skill's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChangeIntent {
    /// 0 until it is recorded.
    pub(crate) seq: u64,
    pub(crate) id: String,
    pub(crate) skill_id: String,
    /// The label of the skill's root.
    pub(crate) root: String,
    pub(crate) root_path: PathBuf,
    /// The skill's directory below its root.
    pub(crate) place: String,
    /// The version before the change; `None` if the skill does not exist.
    pub(crate) before: Option<u64>,
    pub(crate) proposal: Option<String>,
    pub(crate) by: String,
    pub(crate) via: String,
    pub(crate) reason: Option<String>,
    pub(crate) author: VersionAuthor,
    pub(crate) files: Vec<IntentFile>,
}

/// A file of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IntentFile {
    pub(crate) path: String,
    /// The digest before the change; `None` if the file does not exist.
    pub(crate) old: Option<Digest>,
    /// The digest after the change; `None` if the file is removed.
    pub(crate) new: Option<Digest>,
    /// The executable bits after the change.
    pub(crate) mode: u32,
}

impl LedgerTransaction<'_> {
    /// Records a change before it is made; sets its id and number.
    pub(crate) fn add_intent(&self, intent: &mut ChangeIntent, changed: u64) -> DbResult<()> {
        intent.id = self.new_id()?;
        self.tx.execute(
            "INSERT INTO intents
                 (id, changed, state, skill_id, root, root_path, place, before, proposal, by, via,
                  reason, author)
             VALUES (?1, ?2, 'pending', ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            (
                &intent.id,
                changed as i64,
                &intent.skill_id,
                &intent.root,
                path_bytes(&intent.root_path),
                &intent.place,
                intent.before.map(|seq| seq as i64),
                &intent.proposal,
                &intent.by,
                &intent.via,
                &intent.reason,
                SqlJson(&intent.author),
            ),
        )?;
        let seq = self.tx.last_insert_rowid();
        intent.seq = seq as u64;
        let mut statement = self.tx.prepare(
            "INSERT INTO intent_files (intent, position, path, old, new, mode)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        for (position, file) in intent.files.iter().enumerate() {
            statement.execute((
                seq,
                position as i64,
                &file.path,
                file.old.map(SqlDigest),
                file.new.map(SqlDigest),
                file.mode,
            ))?;
        }
        Ok(())
    }

    /// Returns the changes that are not complete, the oldest first.
    pub(crate) fn pending_intents(&self) -> DbResult<Vec<ChangeIntent>> {
        let sql =
            "SELECT seq, id, skill_id, root, root_path, place, before, proposal, by, via, reason,
                 author
             FROM intents WHERE state = 'pending' ORDER BY seq";
        let mut intents = self.select_rows(sql, [], intent_from_row)?;
        let sql =
            "SELECT path, old, new, mode FROM intent_files WHERE intent = ?1 ORDER BY position";
        for intent in &mut intents {
            intent.files = self.select_rows(sql, [intent.seq as i64], file_from_row)?;
        }
        Ok(intents)
    }

    /// Closes a change: as `done` or `abandoned`.
    pub(crate) fn close_intent(&self, seq: u64, state: &str, changed: u64) -> DbResult<()> {
        self.tx.execute(
            "UPDATE intents SET state = ?2, changed = ?3 WHERE seq = ?1",
            (seq as i64, state, changed as i64),
        )?;
        Ok(())
    }
}

fn intent_from_row(row: &Row<'_>) -> rusqlite::Result<ChangeIntent> {
    Ok(ChangeIntent {
        seq: row.get::<_, i64>(0)? as u64,
        id: row.get(1)?,
        skill_id: row.get(2)?,
        root: row.get(3)?,
        root_path: path_from_bytes(row.get(4)?),
        place: row.get(5)?,
        before: row.get::<_, Option<i64>>(6)?.map(|seq| seq as u64),
        proposal: row.get(7)?,
        by: row.get(8)?,
        via: row.get(9)?,
        reason: row.get(10)?,
        author: row.get::<_, SqlJson<VersionAuthor>>(11)?.0,
        files: Vec::new(),
    })
}

fn file_from_row(row: &Row<'_>) -> rusqlite::Result<IntentFile> {
    Ok(IntentFile {
        path: row.get(0)?,
        old: row.get::<_, Option<SqlDigest>>(1)?.map(|hash| hash.0),
        new: row.get::<_, Option<SqlDigest>>(2)?.map(|hash| hash.0),
        mode: row.get(3)?,
    })
}
