//! Operations on a stored proposal: its state, its file, its texts and its entries in the audit log.

use skill_catalog::{Advice, NextStep, Snapshot};
use skill_format::Digest;

use crate::examine::{ChangeExamination, DigestedText, examine_change};
use crate::files::skill_directory::ProposalTarget;
use crate::records::error::{LedgerError, LedgerErrorKind, rebase_advice};
use crate::records::event::LedgerEvent;
use crate::records::proposal::{HumanActor, Proposal, ProposalState};
use crate::session::LedgerWork;
use crate::sqlite::{NewAuditEntry, StoredProposal};

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
        ProposalState::Stale | ProposalState::Failed => rebase_advice(&summary.id),
        ProposalState::Applied => {
            let step = NextStep::RollBackSkill { id: summary.skill_id.clone() };
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
        via: &actor.via,
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
    // The result of a check belongs to the former text.
    (summary.acceptance, summary.model_evidence) = (None, None);
    proposal.base_text = base.map(|base| base.text.clone());
    proposal.new_text = Some(new.to_owned());
    (proposal.diff, proposal.lint, proposal.tokens) = (diff, lint, tokens);
    // The deviations belong to the author's diff, which is replaced.
    proposal.fuzz.clear();
    Ok(())
}
