//! The ledger: what agents propose, what people decide, and every text a skill ever had.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use skill_format::{Digest, SkillId};

use crate::clock::Clock;
use crate::snapshot::Snapshot;

mod activation;
mod error;
mod event;
mod note;
mod proposal;
mod version;

pub use activation::{Activation, ActivationKind, SkillStats};
pub use error::{LedgerError, LedgerErrorKind};
pub use event::{LedgerEvent, ProposalEvent};
pub use note::LedgerNote;
pub use proposal::{
    Actor, Applied, Author, Decision, Drift, FileState, Flag, LintDelta, LintFinding, Proposal,
    ProposalFilter, ProposalState, ProposalSummary, ProposeRequest, Proposed, Rebased,
};
pub use version::{
    AuditEntry, AuditFilter, Standing, Version, VersionAuthor, VersionFile, VersionTree,
};

/// Keeps proposals, versions and the audit log of a data directory.
///
/// Cheap to make and to hold: the database is opened for each call and closed again, under a lock
/// that other processes respect.
pub struct Ledger {
    data_dir: PathBuf,
    clock: Arc<dyn Clock>,
}

#[expect(unused_variables, reason = "signatures")]
#[expect(missing_docs, reason = "signatures")]
impl Ledger {
    #[must_use]
    pub fn new(data_dir: PathBuf, clock: Arc<dyn Clock>) -> Self {
        Self { data_dir, clock }
    }
    /// What was noticed or repaired since the last time this was asked.
    pub fn take_notes(&self) -> Vec<LedgerNote> {
        todo!()
    }
    pub fn propose(
        &self,
        snapshot: &Snapshot,
        author: &Author,
        request: &ProposeRequest,
    ) -> Result<Proposed, LedgerError> {
        todo!()
    }
    pub fn proposals(
        &self,
        filter: ProposalFilter<'_>,
    ) -> Result<Vec<ProposalSummary>, LedgerError> {
        todo!()
    }
    pub fn proposal(&self, id: &str) -> Result<Proposal, LedgerError> {
        todo!()
    }
    pub fn drift(&self, snapshot: &Snapshot, proposal: &Proposal) -> Drift {
        todo!()
    }
    pub fn approve(
        &self,
        snapshot: &Snapshot,
        actor: &Actor,
        id: &str,
        digest: Digest,
        reason: Option<&str>,
    ) -> Result<Applied, LedgerError> {
        todo!()
    }
    pub fn reject(&self, actor: &Actor, id: &str, reason: &str) -> Result<Proposal, LedgerError> {
        todo!()
    }
    pub fn amend(
        &self,
        snapshot: &Snapshot,
        actor: &Actor,
        id: &str,
        new_text: &str,
    ) -> Result<Proposal, LedgerError> {
        todo!()
    }
    pub fn rebase(
        &self,
        snapshot: &Snapshot,
        actor: &Actor,
        id: &str,
    ) -> Result<Rebased, LedgerError> {
        todo!()
    }
    pub fn history(
        &self,
        snapshot: &Snapshot,
        skill_id: &str,
    ) -> Result<Vec<Version>, LedgerError> {
        todo!()
    }
    pub fn version(&self, skill_id: &str, number: Option<u64>) -> Result<VersionTree, LedgerError> {
        todo!()
    }
    pub fn rollback(
        &self,
        snapshot: &Snapshot,
        actor: &Actor,
        skill_id: &str,
        number: Option<u64>,
        reason: Option<&str>,
    ) -> Result<Applied, LedgerError> {
        todo!()
    }
    pub fn audit(&self, filter: AuditFilter<'_>) -> Result<Vec<AuditEntry>, LedgerError> {
        todo!()
    }
    pub fn report_created(
        &self,
        snapshot: &Snapshot,
        author: &Author,
        skill_id: &str,
    ) -> Result<(), LedgerError> {
        todo!()
    }
    pub fn approve_skill(
        &self,
        snapshot: &Snapshot,
        actor: &Actor,
        skill_id: &str,
        digest: Digest,
    ) -> Result<(), LedgerError> {
        todo!()
    }
    pub fn standing(&self, snapshot: &Snapshot) -> Result<HashMap<SkillId, Standing>, LedgerError> {
        todo!()
    }
    pub fn observe(
        &self,
        snapshot: &Snapshot,
        changed: &[SkillId],
    ) -> Result<Vec<LedgerEvent>, LedgerError> {
        todo!()
    }
    pub fn events_since(&self, seq: u64) -> Result<(u64, Vec<LedgerEvent>), LedgerError> {
        todo!()
    }
    pub fn record_activations(&self, batch: &[Activation]) -> Result<(), LedgerError> {
        todo!()
    }
    pub fn stats(&self, since_ms: Option<i64>) -> Result<Vec<SkillStats>, LedgerError> {
        todo!()
    }
}
