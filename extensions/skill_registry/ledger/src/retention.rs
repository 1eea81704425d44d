//! Retention of versions, texts and reads.

use std::fs;

use serde_json::json;

use crate::changes::record::disk_audit_entry;
use crate::ledger::Ledger;
use crate::records::error::LedgerError;
use crate::records::retention::{PruneReport, RetentionRule};
use crate::session::LedgerSession;
use crate::sqlite::NewAuditEntry;

/// The free space, in bytes, from which on a running registry shrinks the database.
const MIN_FREE_BYTES: u64 = 16 << 20;

impl Ledger {
    /// Removes the data that a rule does not keep and returns the space to the file system; with
    /// `dry_run`, only reports it.
    ///
    /// # Errors
    /// Those of the disk and the database; then no data is removed.
    pub fn prune(&self, rule: &RetentionRule, dry_run: bool) -> Result<PruneReport, LedgerError> {
        self.with_existing_session(|session| {
            let before = session.file_size();
            let mut report = session.prune(rule, dry_run)?;
            if !dry_run {
                // A person who prunes wants the space now, however little it is.
                session.db.shrink(0)?;
            }
            (report.file_before, report.file_after) = (before, session.file_size());
            Ok(report)
        })
    }

    /// Applies the rule for a running registry: the file is shrunk only if much of it is free.
    pub(crate) fn retain(&self) -> Result<PruneReport, LedgerError> {
        self.with_existing_session(|session| {
            let report = session.prune(&RetentionRule::default(), false)?;
            // An entry of the audit log at every run would itself let the database grow.
            if !report.is_empty() {
                session.db.shrink(MIN_FREE_BYTES)?;
            }
            Ok(report)
        })
    }
}

impl LedgerSession<'_> {
    fn prune(&mut self, rule: &RetentionRule, dry_run: bool) -> Result<PruneReport, LedgerError> {
        self.db.prune(&self.stamp, dry_run, |tx| {
            let report = tx.prune(rule)?;
            if !report.is_empty() {
                tx.append_audit(&NewAuditEntry {
                    action: "ledger.pruned",
                    detail: json!({
                        "rule": rule, "versions": report.versions, "texts": report.texts,
                        "bytes": report.bytes, "readings": report.readings,
                    }),
                    ..disk_audit_entry()
                })?;
            }
            Ok(report)
        })
    }

    fn file_size(&self) -> u64 {
        fs::metadata(self.ledger.database()).map_or(0, |metadata| metadata.len())
    }
}
