//! What the ledger keeps for how long.

use std::fs;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use crate::db::NewAuditEntry;
use crate::ledger::Ledger;
use crate::ledger::apply::disk_audit_entry;
use crate::ledger::error::LedgerError;
use crate::ledger::session::LedgerSession;

/// The least space in a database that is worth rewriting it for.
const MIN_FREE_BYTES: u64 = 16 << 20;

/// Says which versions, texts and readings are kept.
///
/// Always kept are the first version of a skill, every version that a person approved, and whatever
/// an open proposal or an unfinished change needs. The audit log is kept, except for the lines about
/// versions that are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RetentionRule {
    /// The newest versions of each skill that are kept, whatever their age.
    pub newest: u32,
    /// The days for which direct edits are kept, and the texts of decided proposals.
    pub days: u32,
    /// The newest versions of each skill that are kept for these days.
    pub newest_in_days: u32,
    /// The days for which the last version of each day is kept.
    pub daily_days: u32,
    /// The newest readings that are kept.
    pub readings: u32,
    /// The days for which readings are kept.
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
    /// Number of versions after which a running registry applies the rule again.
    pub(crate) const VERSIONS_BETWEEN: usize = 1_000;

    /// Time after which a running registry applies the rule again.
    pub(crate) const INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
}

/// What a rule removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PruneReport {
    /// The number of versions.
    pub versions: u64,
    /// The number of skills they were versions of.
    pub skills: u64,
    /// The number of texts that nothing else refers to.
    pub texts: u64,
    /// The bytes of these texts.
    pub bytes: u64,
    /// The number of readings.
    pub readings: u64,
    /// The size of the database's file before, in bytes.
    pub file_before: u64,
    /// The size of the file after.
    pub file_after: u64,
}

impl PruneReport {
    /// Tells whether nothing was removed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.versions == 0 && self.texts == 0 && self.readings == 0
    }
}

impl Ledger {
    /// Removes what a rule does not keep and gives the space back; with `dry_run`, only says what it
    /// would remove.
    ///
    /// # Errors
    /// Those of the disk and the database; then nothing is removed.
    pub fn prune(&self, rule: &RetentionRule, dry_run: bool) -> Result<PruneReport, LedgerError> {
        self.with_existing_session(|session| {
            let before = session.file_size();
            let mut report = session.prune(rule, dry_run)?;
            if !dry_run {
                session.db.shrink(0)?;
            }
            (report.file_before, report.file_after) = (before, session.file_size());
            Ok(report)
        })
    }

    /// Applies the rule as a running registry does: the file is only rewritten where much of it is
    /// free.
    pub(crate) fn retain(&self) -> Result<PruneReport, LedgerError> {
        self.with_existing_session(|session| {
            let report = session.prune(&RetentionRule::default(), false)?;
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
