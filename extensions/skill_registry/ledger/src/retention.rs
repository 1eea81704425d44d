//! Retention of versions, texts and reads.

use std::fs;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use crate::changes::apply::disk_audit_entry;
use crate::ledger::Ledger;
use crate::records::error::LedgerError;
use crate::session::LedgerSession;
use crate::sqlite::NewAuditEntry;

/// The free space, in bytes, from which on a running registry shrinks the database.
const MIN_FREE_BYTES: u64 = 16 << 20;

/// The rule that decides which versions, texts and reads are kept.
///
/// The first version of a skill, every version that a person approved, and all data of open
/// proposals and unfinished changes are always kept. The audit log is kept, except for the entries
/// about removed versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RetentionRule {
    /// The number of newest versions of each skill that are kept, regardless of their age.
    pub newest: u32,
    /// The number of days for which direct edits are kept, and the texts of decided proposals.
    pub days: u32,
    /// The number of newest versions of each skill that are kept for these days.
    pub newest_in_days: u32,
    /// The number of days for which the last version of each day is kept.
    pub daily_days: u32,
    /// The number of newest reads that are kept.
    pub readings: u32,
    /// The number of days for which reads are kept.
    pub reading_days: u32,
}

impl Default for RetentionRule {
    fn default() -> Self {
        Self {
            newest: 20,
            days: 30,
            newest_in_days: 100,
            daily_days: 90,
            readings: 100_000,
            reading_days: 365,
        }
    }
}

impl RetentionRule {
    /// The number of versions after which a running registry applies the rule again.
    pub(crate) const VERSIONS_BETWEEN: usize = 1_000;

    /// The time after which a running registry applies the rule again.
    pub(crate) const INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
}

/// The number of removed entries, and the size of the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PruneReport {
    /// The number of versions.
    pub versions: u64,
    /// The number of skills to which they belonged.
    pub skills: u64,
    /// The number of texts without any other reference.
    pub texts: u64,
    /// The bytes of these texts.
    pub bytes: u64,
    /// The number of reads.
    pub readings: u64,
    /// The size of the database's file before, in bytes.
    pub file_before: u64,
    /// The size of the file after.
    pub file_after: u64,
}

impl PruneReport {
    /// Returns `true` if no version, text or read was removed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.versions == 0 && self.texts == 0 && self.readings == 0
    }
}

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
