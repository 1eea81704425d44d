//! The words of every skill, in SQLite's full-text index.

use std::collections::HashSet;

use rusqlite::{OptionalExtension, ffi};
use skill_format::Digest;

use super::{DbResult, LedgerTransaction, SqlDigest};
use crate::records::catalog_row::{CatalogHit, CatalogRow, CatalogTerm, FIELDS};

/// The maximum number of ranked rows.
const MAX_RANKED: usize = 200;

impl LedgerTransaction<'_> {
    /// Returns the skills that have a row, with the digest of its text.
    pub(crate) fn catalog_rows(&self) -> DbResult<Vec<(String, Digest)>> {
        self.select_rows("SELECT skill_id, digest FROM catalog", [], |row| {
            Ok((row.get(0)?, row.get::<_, SqlDigest>(1)?.0))
        })
    }

    /// Replaces the rows of some skills and removes others. If the index turns out to be damaged,
    /// all rows are removed instead, and the next call adds them again.
    pub(crate) fn renew_catalog(&self, rows: &[CatalogRow], gone: &[String]) -> DbResult<()> {
        self.put_catalog(rows, gone).or_else(|error| match is_damaged(&error) {
            true => self.empty_catalog(),
            false => Err(error.into()),
        })
    }

    fn put_catalog(&self, rows: &[CatalogRow], gone: &[String]) -> rusqlite::Result<()> {
        // A replaced row gets a new number, so its former words are removed first.
        let replaced = rows.iter().map(|row| &row.skill_id);
        for id in replaced.chain(gone) {
            let seq = "DELETE FROM catalog WHERE skill_id = ?1 RETURNING seq";
            let seq: Option<i64> = self.tx.query_row(seq, [id], |row| row.get(0)).optional()?;
            if let Some(seq) = seq {
                self.tx.execute("DELETE FROM catalog_words WHERE rowid = ?1", [seq])?;
            }
        }
        let mut skill = self
            .tx
            .prepare("INSERT INTO catalog (skill_id, digest) VALUES (?1, ?2) RETURNING seq")?;
        let mut words = self.tx.prepare(
            "INSERT INTO catalog_words (rowid, name, description, tags, headings, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        for row in rows {
            let seq: i64 =
                skill.query_row((&row.skill_id, SqlDigest(row.digest)), |row| row.get(0))?;
            let [name, description, tags, headings, body] = &row.fields;
            words.execute((seq, name, description, tags, headings, body))?;
        }
        Ok(())
    }

    /// Removes all rows, even if the index is damaged.
    pub(crate) fn empty_catalog(&self) -> DbResult<()> {
        self.tx.execute_batch(super::schema::EMPTY_CATALOG)?;
        Ok(())
    }

    /// Returns the ids of the rows that match all terms, or `None` if the index is damaged.
    pub(crate) fn matching_catalog_rows(
        &self,
        terms: &[CatalogTerm],
    ) -> DbResult<Option<Vec<String>>> {
        let wanted: Vec<String> = terms.iter().map(quote_term).collect();
        let mut statement = self.tx.prepare(
            "SELECT skill_id FROM catalog_words JOIN catalog ON catalog.seq = catalog_words.rowid
             WHERE catalog_words MATCH ?1",
        )?;
        let rows = statement.query_map([wanted.join(" AND ")], |row| row.get(0));
        ignore_damage(rows.and_then(Iterator::collect))
    }

    /// Returns the rows that match any of the terms, the best first and equal ones by id, or `None`
    /// if the index is damaged.
    pub(crate) fn rank_catalog(&self, terms: &[CatalogTerm]) -> DbResult<Option<Vec<CatalogHit>>> {
        ignore_damage(self.ranked_rows(terms))
    }

    fn ranked_rows(&self, terms: &[CatalogTerm]) -> rusqlite::Result<Vec<CatalogHit>> {
        let wanted: Vec<String> = terms.iter().map(quote_term).collect();
        let wanted = wanted.join(" OR ");
        // A hit in the name weighs more than one in the body; the weights are in the order of
        // FIELDS.
        let mut ranked = self.tx.prepare(
            "SELECT skill_id, -bm25(catalog_words, 8.0, 4.0, 4.0, 2.0, 1.0) AS score, seq
             FROM catalog_words JOIN catalog ON catalog.seq = catalog_words.rowid
             WHERE catalog_words MATCH ?1 ORDER BY score DESC, skill_id LIMIT ?2",
        )?;
        let hit = |row: &rusqlite::Row<'_>| {
            let (skill_id, score, fields) = (row.get(0)?, row.get(1)?, Vec::new());
            Ok((row.get::<_, i64>(2)?, CatalogHit { skill_id, score, fields }))
        };
        let found = ranked.query_map((&wanted, MAX_RANKED as i64), hit);
        let mut hits: Vec<(i64, CatalogHit)> = found.and_then(Iterator::collect)?;
        // One query per field: an index without content cannot report where it matched.
        let mut within =
            self.tx.prepare("SELECT rowid FROM catalog_words WHERE catalog_words MATCH ?1")?;
        for field in FIELDS {
            let wanted = format!("{field} : ({wanted})");
            let seqs = within.query_map([wanted], |row| row.get(0));
            let seqs: HashSet<i64> = seqs.and_then(Iterator::collect)?;
            let with = hits.iter_mut().filter(|(seq, _)| seqs.contains(seq));
            with.for_each(|(_, hit)| hit.fields.push(field));
        }
        Ok(hits.into_iter().map(|(_, hit)| hit).collect())
    }
}

/// Quotes a term so that no part of it is an operator.
fn quote_term(term: &CatalogTerm) -> String {
    let star = if term.prefix { "*" } else { "" };
    // A zero byte would end the expression.
    let words = term.words.replace('\0', " ").replace('"', "\"\"");
    format!("\"{words}\"{star}")
}

/// Returns `true` if the error means a damaged full-text index; other tables are not affected.
fn is_damaged(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code == Some(ffi::SQLITE_CORRUPT_VTAB)
}

/// Turns a damaged index into `None`: the rest of the database remains usable.
fn ignore_damage<T>(found: rusqlite::Result<T>) -> DbResult<Option<T>> {
    match found {
        Err(error) if is_damaged(&error) => Ok(None),
        found => Ok(Some(found?)),
    }
}
