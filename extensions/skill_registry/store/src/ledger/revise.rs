//! What a person does to a proposal short of approving it: turn it down, or word it better.

use serde_json::json;
use skill_format::Digest;

use crate::db::{Entry, Stored};
use crate::ledger::Ledger;
use crate::ledger::error::{LedgerError, LedgerErrorKind};
use crate::ledger::event::LedgerEvent;
use crate::ledger::examine::{Examined, Text, examine};
use crate::ledger::place::Subject;
use crate::ledger::proposal::{Actor, Decision, Proposal, ProposalState};
use crate::ledger::propose::{check_reason, told};
use crate::ledger::session::Work;
use crate::snapshot::Snapshot;

impl Ledger {
    /// Turns a proposal down: one that is open, stale or failed. Its texts are kept.
    ///
    /// # Errors
    /// [`LedgerErrorKind::NotFound`] and [`LedgerErrorKind::Ambiguous`] for the id,
    /// [`LedgerErrorKind::Argument`] without a reason, [`LedgerErrorKind::State`] if it is decided;
    /// those of the disk and the database.
    pub fn reject(&self, actor: &Actor, id: &str, reason: &str) -> Result<Proposal, LedgerError> {
        if reason.trim().is_empty() {
            return Err(LedgerError::new(
                LedgerErrorKind::Argument,
                "a proposal is not rejected without a reason",
                "say why: whoever proposed it can learn from it",
            ));
        }
        check_reason("the reason", reason)?;
        self.with(|session| {
            session.change(|work| {
                let mut stored = work.find(id)?;
                let state = stored.proposal.summary.state;
                use ProposalState::{Failed, Open, Stale};
                require(&stored, &[Open, Stale, Failed], "rejected")?;
                stored.proposal.summary.state = ProposalState::Rejected;
                stored.proposal.decided = Some(Decision {
                    by: actor.name.clone(),
                    at_ms: work.now_ms(),
                    reason: Some(reason.to_owned()),
                });
                let event = LedgerEvent::ProposalRejected(told(&stored.proposal, &actor.name));
                let detail = json!({"from": state, "reason": reason});
                let changed = log(work, &stored, actor, "proposal.rejected", Some(&event), detail)?;
                work.save(&mut stored, changed)?;
                Ok(work.complete(stored))
            })
        })
    }

    /// Gives an open proposal another text, as a person edited it; it has another digest then. The
    /// text before is kept.
    ///
    /// # Errors
    /// Those of [`Ledger::propose`] for the text; [`LedgerErrorKind::NotFound`] and
    /// [`LedgerErrorKind::Ambiguous`] for the id; [`LedgerErrorKind::State`] if it is not open.
    pub fn amend(
        &self,
        snapshot: &Snapshot,
        actor: &Actor,
        id: &str,
        new_text: &str,
    ) -> Result<Proposal, LedgerError> {
        self.with(|session| {
            session.settle(snapshot)?;
            let mut stored = session.read(|work| work.find(id))?;
            require(&stored, &[ProposalState::Open], "edited")?;
            let subject = subject_of(snapshot, &stored.proposal)?;
            let base = base_of(&stored.proposal);
            let before = stored.proposal.summary.new_digest;
            reword(&subject, &mut stored.proposal, base.as_ref(), new_text)?;
            session.change(|work| {
                let new = stored.proposal.summary.new_digest;
                work.add_blobs([(new, new_text.as_bytes())])?;
                let detail = json!({"from": before, "to": new});
                let changed = log(work, &stored, actor, "proposal.amended", None, detail)?;
                work.save(&mut stored, changed)?;
                Ok(work.complete(stored))
            })
        })
    }
}

/// Refuses to go on with a proposal that is in another state.
pub(super) fn require(
    stored: &Stored,
    states: &[ProposalState],
    done: &str,
) -> Result<(), LedgerError> {
    let summary = &stored.proposal.summary;
    if states.contains(&summary.state) {
        return Ok(());
    }
    let hint = match summary.state {
        ProposalState::Stale | ProposalState::Failed => {
            format!("`skill rebase {}` makes it fit the file as it is now", summary.id)
        }
        ProposalState::Applied => format!("`skill rollback {}` takes it back", summary.skill_id),
        ProposalState::Approved => "it is being applied; try again".to_owned(),
        ProposalState::Open | ProposalState::Rejected | ProposalState::Superseded => {
            "an agent can propose it again".to_owned()
        }
    };
    let kind = match summary.state {
        ProposalState::Stale => LedgerErrorKind::Stale,
        _ => LedgerErrorKind::State,
    };
    let message = format!("proposal {} is {} and cannot be {done}", summary.id, summary.state);
    Err(LedgerError::new(kind, message, hint))
}

/// Adds a person's deed to the audit log.
pub(super) fn log(
    work: &Work<'_, '_>,
    stored: &Stored,
    actor: &Actor,
    action: &str,
    event: Option<&LedgerEvent>,
    detail: serde_json::Value,
) -> Result<u64, LedgerError> {
    let summary = &stored.proposal.summary;
    work.log(&Entry {
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

/// Finds the file a proposal is about.
pub(super) fn subject_of(snapshot: &Snapshot, proposal: &Proposal) -> Result<Subject, LedgerError> {
    Subject::find(snapshot, &proposal.summary.skill_id, Some(&proposal.summary.path))
}

/// Returns the text a proposal was made for.
pub(super) fn base_of(proposal: &Proposal) -> Option<Text> {
    let digest = proposal.summary.base_digest?;
    Some(Text { digest, text: proposal.base_text.clone()? })
}

/// Makes a proposal one of another text, on what may be another base.
pub(super) fn reword(
    subject: &Subject,
    proposal: &mut Proposal,
    base: Option<&Text>,
    new: &str,
) -> Result<(), LedgerError> {
    let words: Vec<&str> = std::iter::once(&proposal.justification)
        .chain(&proposal.evidence)
        .map(String::as_str)
        .collect();
    let examined = examine(subject, base.map(|base| base.text.as_str()), new, &words)?;
    let Examined { diff, added, removed, flags, lint, tokens } = examined;
    let summary = &mut proposal.summary;
    summary.base_digest = base.map(|base| base.digest);
    summary.new_digest = Digest::compute(new.as_bytes());
    (summary.added, summary.removed, summary.flags) = (added, removed, flags);
    proposal.base_text = base.map(|base| base.text.clone());
    proposal.new_text = Some(new.to_owned());
    (proposal.diff, proposal.lint, proposal.tokens) = (diff, lint, tokens);
    // It is no longer what the author's diff was taken for.
    proposal.fuzz.clear();
    Ok(())
}
