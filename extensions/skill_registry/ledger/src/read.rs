//! Queries of the ledger, and the log of reads.

use std::time::Duration;

use crate::ledger::Ledger;
use crate::records::activation::{SkillActivation, SkillStats};
use crate::records::error::LedgerError;
use crate::records::event::LedgerEvent;
use crate::records::proposal::{Proposal, ProposalFilter, ProposalSummary};
use crate::records::usage::{SkillUsage, UsageDay, UsageMap};
use crate::records::version::{AuditEntry, AuditFilter};
use crate::session::proposal_not_found;
use crate::sqlite::count_reads;

impl Ledger {
    /// Lists proposals, the oldest first.
    ///
    /// # Errors
    /// Those of the disk and the database.
    pub fn proposals(
        &self,
        filter: ProposalFilter<'_>,
    ) -> Result<Vec<ProposalSummary>, LedgerError> {
        self.with_existing_session(|session| session.read(|work| work.proposals(&filter)))
    }

    /// Returns a proposal by its id, the start of it (six characters or more) or its number.
    ///
    /// # Errors
    /// [`LedgerErrorKind::NotFound`](crate::LedgerErrorKind::NotFound) and
    /// [`LedgerErrorKind::Ambiguous`](crate::LedgerErrorKind::Ambiguous) for the id; those of the
    /// disk and the database.
    pub fn proposal(&self, id: &str) -> Result<Proposal, LedgerError> {
        let found = self.with_existing_session(|session| {
            session.read(|work| {
                let stored = work.find(id)?;
                Ok(Some(work.complete(stored)))
            })
        })?;
        // No session, no proposal: the ledger does not exist yet.
        found.ok_or_else(|| proposal_not_found(id, Vec::new()))
    }

    /// Returns lines of the audit log, the oldest first.
    ///
    /// # Errors
    /// Those of the disk and the database.
    pub fn audit(&self, filter: AuditFilter<'_>) -> Result<Vec<AuditEntry>, LedgerError> {
        self.with_existing_session(|session| session.read(|work| work.audit_entries(&filter)))
    }

    /// Returns the events after a number of the audit log that other processes, or other copies of
    /// the program in this one, caused; and the number to pass the next time.
    ///
    /// # Errors
    /// Those of the disk and the database.
    pub fn events_since(&self, seq: u64) -> Result<(u64, Vec<LedgerEvent>), LedgerError> {
        self.with_existing_session(|session| session.read(|work| work.events_since(seq)))
    }

    /// Returns the events of the given time until now that another copy of the program caused, from
    /// at most the last thousand entries of the log.
    ///
    /// # Errors
    /// Those of the disk and the database.
    pub(crate) fn events_of(&self, time: Duration) -> Result<Vec<LedgerEvent>, LedgerError> {
        let ms = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        self.with_existing_session(|session| {
            session.read(|work| {
                let since = work.last_seq_before(work.now_ms().saturating_sub(ms))?;
                Ok(work.events_since(since)?.1)
            })
        })
    }

    /// Adds reads to the log.
    ///
    /// # Errors
    /// Those of the disk and the database; then none of them is recorded.
    pub fn record_activations(&self, batch: &[SkillActivation]) -> Result<(), LedgerError> {
        self.record_usage(batch, &UsageMap::new())
    }

    /// Adds reads to the log and to the use of their days, and further counts, in one transaction.
    pub(crate) fn record_usage(
        &self,
        batch: &[SkillActivation],
        further: &UsageMap,
    ) -> Result<(), LedgerError> {
        // No lock for an empty batch: this runs at every poll.
        if batch.is_empty() && further.is_empty() {
            return Ok(());
        }
        let reads = count_reads(batch);
        self.with_session(|session| {
            session.change(|work| {
                work.add_activations(batch)?;
                work.add_usage(&reads)?;
                work.add_usage(further)
            })
        })
    }

    /// Sums up the use of each skill by agents from a UTC day on, counted from 1970-01-01; sorted by
    /// id.
    ///
    /// # Errors
    /// Those of the disk and the database.
    pub fn skill_usage(&self, since_day: Option<i64>) -> Result<Vec<SkillUsage>, LedgerError> {
        let since = since_day.unwrap_or(i64::MIN);
        self.with_existing_session(|session| session.read(|work| work.skill_usage(since)))
    }

    /// Returns the use of a skill by day and agent from a UTC day on, in order.
    ///
    /// # Errors
    /// Those of the disk and the database.
    pub fn usage_days(
        &self,
        skill_id: &str,
        since_day: Option<i64>,
    ) -> Result<Vec<UsageDay>, LedgerError> {
        let since = since_day.unwrap_or(i64::MIN);
        self.with_existing_session(|session| session.read(|work| work.usage_days(skill_id, since)))
    }

    /// Sums up the reads since a time (in milliseconds since 1970), the most read skill first.
    ///
    /// # Errors
    /// Those of the disk and the database.
    pub fn stats(&self, since_ms: Option<i64>) -> Result<Vec<SkillStats>, LedgerError> {
        let since = since_ms.unwrap_or(i64::MIN);
        self.with_existing_session(|session| session.read(|work| work.activation_stats(since)))
    }
}
