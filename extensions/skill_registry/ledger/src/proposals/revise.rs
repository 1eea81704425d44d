//! Rejection and amendment of a proposal by a person.

use serde_json::json;
use skill_catalog::Snapshot;

use crate::ledger::Ledger;
use crate::proposals::stored::{base_text, find_target, log_action, replace_text, require_state};
use crate::records::error::{LedgerError, LedgerErrorKind};
use crate::records::event::LedgerEvent;
use crate::records::limits::check_reason;
use crate::records::proposal::{HumanActor, Proposal, ProposalDecision, ProposalState};

impl Ledger {
    /// Rejects a proposal that is open, stale or failed. Its texts are kept.
    ///
    /// # Errors
    /// [`LedgerErrorKind::NotFound`] and [`LedgerErrorKind::Ambiguous`] for the id,
    /// [`LedgerErrorKind::Argument`] without a reason, [`LedgerErrorKind::State`] if it is decided;
    /// those of the disk and the database.
    pub fn reject(
        &self,
        actor: &HumanActor,
        id: &str,
        reason: &str,
    ) -> Result<Proposal, LedgerError> {
        if reason.trim().is_empty() {
            return Err(LedgerError::new(
                LedgerErrorKind::Argument,
                "a rejection requires a reason",
                "give the reason, so that the author can learn from it",
            ));
        }
        check_reason("the reason", reason)?;
        self.with_session(|session| {
            session.change(|work| {
                let mut stored = work.find(id)?;
                let state = stored.proposal.summary.state;
                use ProposalState::{Failed, Open, Stale};
                require_state(&stored, &[Open, Stale, Failed], "rejected")?;
                stored.proposal.summary.state = ProposalState::Rejected;
                stored.proposal.decided = Some(ProposalDecision {
                    by: actor.name.clone(),
                    at_ms: work.now_ms(),
                    reason: Some(reason.to_owned()),
                });
                let event = LedgerEvent::ProposalRejected(stored.proposal.to_event(&actor.name));
                let detail = json!({"from": state, "reason": reason});
                let changed =
                    log_action(work, &stored, actor, "proposal.rejected", Some(&event), detail)?;
                work.save(&mut stored, changed)?;
                Ok(work.complete(stored))
            })
        })
    }

    /// Replaces the text of an open proposal by one that a person edited; its digest changes with
    /// it. The former text is kept.
    ///
    /// # Errors
    /// Those of [`Ledger::propose`] for the text; [`LedgerErrorKind::NotFound`] and
    /// [`LedgerErrorKind::Ambiguous`] for the id; [`LedgerErrorKind::State`] if it is not open.
    pub fn amend(
        &self,
        snapshot: &Snapshot,
        actor: &HumanActor,
        id: &str,
        new_text: &str,
    ) -> Result<Proposal, LedgerError> {
        self.with_session(|session| {
            session.restore_texts(snapshot)?;
            let mut stored = session.read(|work| work.find(id))?;
            require_state(&stored, &[ProposalState::Open], "edited")?;
            let target = find_target(snapshot, &stored.proposal)?;
            let base = base_text(&stored.proposal);
            let before = stored.proposal.summary.new_digest;
            replace_text(&target, &mut stored.proposal, base.as_ref(), new_text)?;
            self.examine_proposal(snapshot, &mut stored.proposal)?;
            session.change(|work| {
                let new = stored.proposal.summary.new_digest;
                work.add_blobs([(new, new_text.as_bytes())])?;
                let detail = json!({"from": before, "to": new});
                let changed = log_action(work, &stored, actor, "proposal.amended", None, detail)?;
                work.save(&mut stored, changed)?;
                work.save_acceptance(&stored, changed)?;
                Ok(work.complete(stored))
            })
        })
    }
}
