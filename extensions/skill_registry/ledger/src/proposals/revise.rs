//! Rejection and amendment of a proposal by a person.

use serde_json::json;
use skill_catalog::{Advice, NextStep, Snapshot};
use skill_format::Digest;

use crate::examine::examine_change;
use crate::examine::{ChangeExamination, DigestedText};
use crate::files::place::ProposalTarget;
use crate::ledger::Ledger;
use crate::proposals::propose::check_reason;
use crate::proposals::propose::to_proposal_event;
use crate::records::error::{LedgerError, LedgerErrorKind};
use crate::records::event::LedgerEvent;
use crate::records::proposal::{HumanActor, Proposal, ProposalDecision, ProposalState};
use crate::session::LedgerWork;
use crate::sqlite::{NewAuditEntry, StoredProposal};

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
                let event =
                    LedgerEvent::ProposalRejected(to_proposal_event(&stored.proposal, &actor.name));
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
            session.change(|work| {
                let new = stored.proposal.summary.new_digest;
                work.add_blobs([(new, new_text.as_bytes())])?;
                let detail = json!({"from": before, "to": new});
                let changed = log_action(work, &stored, actor, "proposal.amended", None, detail)?;
                work.save(&mut stored, changed)?;
                Ok(work.complete(stored))
            })
        })
    }
}

/// Checks that a proposal is in one of the given states; `done` names the operation in the message.
pub(crate) fn require_state(
    stored: &StoredProposal,
    states: &[ProposalState],
    done: &str,
) -> Result<(), LedgerError> {
    let summary = &stored.proposal.summary;
    if states.contains(&summary.state) {
        return Ok(());
    }
    let hint = match summary.state {
        ProposalState::Stale | ProposalState::Failed => {
            crate::records::error::rebase_advice(&summary.id.to_string())
        }
        ProposalState::Applied => {
            let step = NextStep::RollBackSkill { id: summary.skill_id.to_string() };
            Advice::from("run ").with_step(step).with_text(" to undo it")
        }
        ProposalState::Approved => "it is being applied; try again".into(),
        ProposalState::Open | ProposalState::Rejected | ProposalState::Superseded => {
            "an agent can propose it again".into()
        }
    };
    let kind = match summary.state {
        ProposalState::Stale => LedgerErrorKind::Stale,
        _ => LedgerErrorKind::State,
    };
    let message = format!("proposal {} is {} and cannot be {done}", summary.id, summary.state);
    Err(LedgerError::new(kind, message, hint))
}

/// Adds an action of a person to the audit log.
pub(crate) fn log_action(
    work: &LedgerWork<'_, '_>,
    stored: &StoredProposal,
    actor: &HumanActor,
    action: &str,
    event: Option<&LedgerEvent>,
    detail: serde_json::Value,
) -> Result<u64, LedgerError> {
    let summary = &stored.proposal.summary;
    work.append_audit(&NewAuditEntry {
        action,
        by: &actor.name,
        via: actor.via,
        skill_id: Some(&summary.skill_id),
        proposal: Some(&summary.id),
        version: None,
        event,
        detail,
    })
}

/// Finds the file of a proposal.
pub(crate) fn find_target(
    snapshot: &Snapshot,
    proposal: &Proposal,
) -> Result<ProposalTarget, LedgerError> {
    ProposalTarget::find(snapshot, &proposal.summary.skill_id, Some(&proposal.summary.path))
}

/// Returns the base text of a proposal, if it is known.
pub(crate) fn base_text(proposal: &Proposal) -> Option<DigestedText> {
    let digest = proposal.summary.base_digest?;
    Some(DigestedText { digest, text: proposal.base_text.clone()? })
}

/// Replaces the new text of a proposal, and its base.
pub(crate) fn replace_text(
    target: &ProposalTarget,
    proposal: &mut Proposal,
    base: Option<&DigestedText>,
    new: &str,
) -> Result<(), LedgerError> {
    let words: Vec<&str> = std::iter::once(&proposal.justification)
        .chain(&proposal.evidence)
        .map(String::as_str)
        .collect();
    let examined = examine_change(target, base.map(|base| base.text.as_str()), new, &words)?;
    let ChangeExamination { diff, added, removed, flags, lint, tokens } = examined;
    let summary = &mut proposal.summary;
    summary.base_digest = base.map(|base| base.digest);
    summary.new_digest = Digest::compute(new.as_bytes());
    (summary.added, summary.removed, summary.flags) = (added, removed, flags);
    proposal.base_text = base.map(|base| base.text.clone());
    proposal.new_text = Some(new.to_owned());
    (proposal.diff, proposal.lint, proposal.tokens) = (diff, lint, tokens);
    // The deviations belong to the author's diff, which is replaced.
    proposal.fuzz.clear();
    Ok(())
}
