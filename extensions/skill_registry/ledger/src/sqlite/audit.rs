//! The audit log, which numbers every change, and the events to publish.

use rusqlite::{Row, ToSql};
use serde_json::Value;

use super::{DbResult, LedgerTransaction, SqlJson};
use crate::records::event::LedgerEvent;
use crate::records::version::{AuditEntry, AuditFilter};

/// An entry to append to the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewAuditEntry<'a> {
    pub(crate) action: &'a str,
    pub(crate) by: &'a str,
    pub(crate) via: &'a str,
    pub(crate) skill_id: Option<&'a str>,
    pub(crate) proposal: Option<&'a str>,
    pub(crate) version: Option<u64>,
    pub(crate) event: Option<&'a LedgerEvent>,
    pub(crate) detail: Value,
}

impl LedgerTransaction<'_> {
    /// Appends an entry; returns its number.
    pub(crate) fn append_audit(&self, entry: &NewAuditEntry<'_>) -> DbResult<u64> {
        let id = self.new_id()?;
        let event = entry.event.map(SqlJson);
        self.tx.execute(
            "INSERT INTO audit
                 (id, at_ms, instance, action, by, via, skill_id, proposal, version, event, detail)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            (
                &id,
                self.stamp.now_ms,
                &self.stamp.instance,
                entry.action,
                entry.by,
                entry.via,
                entry.skill_id,
                entry.proposal,
                entry.version.map(|version| version as i64),
                event,
                SqlJson(&entry.detail),
            ),
        )?;
        Ok(self.tx.last_insert_rowid() as u64)
    }

    /// Returns entries of the log, the oldest first.
    pub(crate) fn audit_entries(&self, filter: &AuditFilter<'_>) -> DbResult<Vec<AuditEntry>> {
        let mut sql = "SELECT seq, id, at_ms, action, by, via, skill_id, proposal, version, detail
             FROM audit WHERE seq > ?1"
            .to_owned();
        let after = filter.after.unwrap_or(0) as i64;
        // SQLite takes a negative limit as none.
        let limit = filter.limit.map_or(-1, |limit| limit as i64);
        let mut values: Vec<&dyn ToSql> = vec![&after, &limit];
        for (column, wanted) in [("skill_id", &filter.skill), ("proposal", &filter.proposal)] {
            if wanted.is_some() {
                values.push(wanted);
                sql.push_str(&format!(" AND {column} = ?{}", values.len()));
            }
        }
        if filter.since_ms.is_some() {
            values.push(&filter.since_ms);
            sql.push_str(&format!(" AND at_ms >= ?{}", values.len()));
        }
        sql.push_str(" ORDER BY seq DESC LIMIT ?2");
        let mut entries = self.select_rows(&sql, values.as_slice(), entry_from_row)?;
        // Read backwards, so that the limit keeps the newest ones.
        entries.reverse();
        Ok(entries)
    }

    /// Returns the last number of the log before a time, but at most a thousand entries back.
    pub(crate) fn last_seq_before(&self, at_ms: i64) -> DbResult<u64> {
        let select = "SELECT max(coalesce((SELECT max(seq) FROM audit WHERE at_ms < ?1), 0),
             coalesce((SELECT max(seq) FROM audit), 0) - 1000)";
        let seq: i64 = self.tx.query_row(select, [at_ms], |row| row.get(0))?;
        Ok(seq.max(0) as u64)
    }

    /// Returns the last number of the log, and the events after `seq` that another copy of the
    /// program caused.
    pub(crate) fn events_since(&self, seq: u64) -> DbResult<(u64, Vec<LedgerEvent>)> {
        let last: i64 =
            self.tx.query_row("SELECT coalesce(max(seq), 0) FROM audit", [], |row| row.get(0))?;
        let sql = "SELECT action, event FROM audit
             WHERE seq > ?1 AND instance <> ?2 AND event IS NOT NULL ORDER BY seq";
        let events = self.select_rows(sql, (seq as i64, &self.stamp.instance), |row| {
            let action: String = row.get(0)?;
            // The type of an event is not stored: the action of its entry implies it.
            Ok(match action.as_str() {
                "version.created" => LedgerEvent::VersionCreated(json_column(row)?),
                "proposal.created" => LedgerEvent::ProposalCreated(json_column(row)?),
                "proposal.approved" => LedgerEvent::ProposalApproved(json_column(row)?),
                "proposal.rejected" => LedgerEvent::ProposalRejected(json_column(row)?),
                "proposal.applied" => LedgerEvent::ProposalApplied(json_column(row)?),
                _ => LedgerEvent::ProposalStale(json_column(row)?),
            })
        })?;
        Ok((last as u64, events))
    }
}

fn json_column<T: serde::de::DeserializeOwned>(row: &Row<'_>) -> rusqlite::Result<T> {
    Ok(row.get::<_, SqlJson<T>>(1)?.0)
}

fn entry_from_row(row: &Row<'_>) -> rusqlite::Result<AuditEntry> {
    Ok(AuditEntry {
        seq: row.get::<_, i64>(0)? as u64,
        id: row.get(1)?,
        at_ms: row.get(2)?,
        action: row.get(3)?,
        by: row.get(4)?,
        via: row.get(5)?,
        skill_id: row.get(6)?,
        proposal: row.get(7)?,
        version: row.get::<_, Option<i64>>(8)?.map(|version| version as u64),
        detail: row.get::<_, SqlJson<Value>>(9)?.0,
    })
}
