//! What is asked of the ledger without changing anything in it, and the log of readings.

use std::time::Duration;

use crate::ledger::Ledger;
use crate::ledger::activation::{SkillActivation, SkillStats};
use crate::ledger::error::LedgerError;
use crate::ledger::event::LedgerEvent;
use crate::ledger::proposal::{Proposal, ProposalFilter, ProposalSummary};
use crate::ledger::session::no_proposal;
use crate::ledger::version::{AuditEntry, AuditFilter};

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
        found.ok_or_else(|| no_proposal(id, Vec::new()))
    }

    /// Returns lines of the audit log, the oldest first.
    ///
    /// # Errors
    /// Those of the disk and the database.
    pub fn audit(&self, filter: AuditFilter<'_>) -> Result<Vec<AuditEntry>, LedgerError> {
        self.with_existing_session(|session| session.read(|work| work.audit_entries(&filter)))
    }

    /// Returns what other processes, or other copies of the program in this one, did after a number
    /// of the audit log, and the number to ask for the next time.
    ///
    /// # Errors
    /// Those of the disk and the database.
    pub fn events_since(&self, seq: u64) -> Result<(u64, Vec<LedgerEvent>), LedgerError> {
        self.with_existing_session(|session| session.read(|work| work.events_since(seq)))
    }

    /// Returns the events within a time until now that another copy of the program caused, at most
    /// the last thousand lines of the log.
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

    /// Adds readings to the log of what is used.
    ///
    /// # Errors
    /// Those of the disk and the database; then none of them is recorded.
    pub fn record_activations(&self, batch: &[SkillActivation]) -> Result<(), LedgerError> {
        if batch.is_empty() {
            return Ok(());
        }
        self.with_session(|session| session.change(|work| work.add_activations(batch)))
    }

    /// Adds up what was read since a time (in milliseconds since 1970), the most read first.
    ///
    /// # Errors
    /// Those of the disk and the database.
    pub fn stats(&self, since_ms: Option<i64>) -> Result<Vec<SkillStats>, LedgerError> {
        let since = since_ms.unwrap_or(i64::MIN);
        self.with_existing_session(|session| session.read(|work| work.activation_stats(since)))
    }
}
