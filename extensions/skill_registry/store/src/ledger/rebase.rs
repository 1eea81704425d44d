//! Making a proposal fit a file that changed in the meantime.

use serde_json::json;

use crate::db::StoredProposal;
use crate::diff;
use crate::ledger::Ledger;
use crate::ledger::error::{LedgerError, LedgerErrorKind};
use crate::ledger::examine::DigestedText;
use crate::ledger::place::{ProposalTarget, find_skill};
use crate::ledger::proposal::{HumanActor, Proposal, ProposalDrift, ProposalState, RebaseOutcome};
use crate::ledger::revise::{base_text, find_target, log_action, replace_text, require_state};
use crate::ledger::session::LedgerSession;
use crate::snapshot::Snapshot;

/// What merging came to.
enum MergeOutcome {
    /// The file is what the proposal was made for.
    Same,
    /// The file says already what the proposal wants.
    AlreadyApplied,
    Text(String),
    Conflicts(Vec<diff::MergeConflict>),
}

impl Ledger {
    /// Says how a proposal's file has moved since the proposal was made; reads the skill only.
    #[must_use]
    pub fn compute_drift(&self, snapshot: &Snapshot, proposal: &Proposal) -> ProposalDrift {
        let Ok(subject) = find_target(snapshot, proposal) else { return ProposalDrift::Gone };
        let known = proposal.summary.base_digest;
        if known.is_some() && !matches!(find_skill(snapshot, &subject.skill_id), Ok(Some(_))) {
            return ProposalDrift::Gone;
        }
        match subject.read() {
            Ok(current) if current.as_ref().map(|text| text.digest) == known => {
                ProposalDrift::Unchanged
            }
            Ok(current) => ProposalDrift::Moved {
                mergeable: !matches!(
                    merge(&subject, proposal, current.as_ref()),
                    Err(_) | Ok(MergeOutcome::Conflicts(_))
                ),
                current: current.map(|text| text.digest),
            },
            Err(_) => ProposalDrift::Moved { current: None, mergeable: false },
        }
    }

    /// Merges what a proposal changes with what was changed in its file since; the proposal is open
    /// then, with another base and digest. Where both changed the same lines nothing is done and the
    /// conflicts are returned.
    ///
    /// # Errors
    /// [`LedgerErrorKind::NotFound`] and [`LedgerErrorKind::Ambiguous`] for the id,
    /// [`LedgerErrorKind::State`] if it is decided, [`LedgerErrorKind::Conflict`] if the file is gone,
    /// [`LedgerErrorKind::Invalid`] if the merged text would not load; those of the disk and the
    /// database.
    pub fn rebase(
        &self,
        snapshot: &Snapshot,
        actor: &HumanActor,
        id: &str,
    ) -> Result<RebaseOutcome, LedgerError> {
        self.with_session(|session| {
            session.restore_texts(snapshot)?;
            let stored = session.read(|work| work.find(id))?;
            use ProposalState::{Failed, Open, Stale};
            require_state(&stored, &[Open, Stale, Failed], "rebased")?;
            let subject = find_target(snapshot, &stored.proposal)?;
            let current = subject.read()?;
            if let (None, Some(_)) = (&current, stored.proposal.summary.base_digest) {
                return Err(LedgerError::new(
                    LedgerErrorKind::Conflict,
                    format!("{} is gone", subject.location().display()),
                    "restore the file, or reject the proposal",
                ));
            }
            match merge(&subject, &stored.proposal, current.as_ref())? {
                MergeOutcome::Conflicts(conflicts) => session.read(|work| {
                    let proposal = work.complete(stored.clone());
                    Ok(RebaseOutcome { proposal, conflicts: conflicts.clone() })
                }),
                MergeOutcome::Same => session.reopen(stored, actor, None),
                MergeOutcome::AlreadyApplied => session.supersede(stored, actor),
                MergeOutcome::Text(text) => {
                    let mut stored = stored;
                    replace_text(&subject, &mut stored.proposal, current.as_ref(), &text)?;
                    session.reopen(stored, actor, current.as_ref())
                }
            }
        })
    }
}

fn merge(
    subject: &ProposalTarget,
    proposal: &Proposal,
    current: Option<&DigestedText>,
) -> Result<MergeOutcome, LedgerError> {
    let summary = &proposal.summary;
    let digest = current.map(|current| current.digest);
    if digest == summary.base_digest && proposal.new_text.is_some() {
        return Ok(MergeOutcome::Same);
    }
    if digest == Some(summary.new_digest) {
        return Ok(MergeOutcome::AlreadyApplied);
    }
    let now = current.map_or("", |current| current.text.as_str());
    let known = summary.base_digest.is_none() || proposal.base_text.is_some();
    let merged = match &proposal.new_text {
        Some(new) if known => {
            let base = base_text(proposal).map(|base| base.text).unwrap_or_default();
            diff::merge_texts(&base, now, new)
        }
        // The texts were lost with the database; the diff is what is left.
        _ => match diff::apply_diff(now, &proposal.diff, subject.path.as_str()) {
            Ok(patched) => Ok(patched.text),
            Err(error) => {
                return Err(LedgerError::new(
                    LedgerErrorKind::DoesNotApply,
                    format!("the diff does not apply to {}: {error}", subject.path),
                    "reject the proposal; its text was lost with the database",
                ));
            }
        },
    };
    Ok(match merged {
        Ok(text) if text == now => MergeOutcome::AlreadyApplied,
        Ok(text) => MergeOutcome::Text(text),
        Err(conflicts) => MergeOutcome::Conflicts(conflicts),
    })
}

impl LedgerSession<'_> {
    /// Has a proposal wait for a decision again.
    fn reopen(
        &mut self,
        mut stored: StoredProposal,
        actor: &HumanActor,
        base: Option<&DigestedText>,
    ) -> Result<RebaseOutcome, LedgerError> {
        let before = stored.proposal.summary.state;
        if before == ProposalState::Open && base.is_none() {
            return self.read(|work| {
                Ok(RebaseOutcome { proposal: work.complete(stored), conflicts: Vec::new() })
            });
        }
        stored.proposal.summary.state = ProposalState::Open;
        stored.proposal.decided = None;
        self.change(|work| {
            work.add_blobs(base.map(|base| (base.digest, base.text.as_bytes())))?;
            let summary = &stored.proposal.summary;
            let new = stored.proposal.new_text.as_deref();
            work.add_blobs(new.map(|new| (summary.new_digest, new.as_bytes())))?;
            let detail =
                json!({"from": before, "base": summary.base_digest, "new": summary.new_digest});
            let changed = log_action(work, &stored, actor, "proposal.rebased", None, detail)?;
            work.save(&mut stored, changed)?;
            Ok(RebaseOutcome { proposal: work.complete(stored), conflicts: Vec::new() })
        })
    }

    /// Ends a proposal that has nothing left to change.
    fn supersede(
        &mut self,
        mut stored: StoredProposal,
        actor: &HumanActor,
    ) -> Result<RebaseOutcome, LedgerError> {
        stored.proposal.summary.state = ProposalState::Superseded;
        self.change(|work| {
            let detail = json!({"because": "the file says the same already"});
            let changed = log_action(work, &stored, actor, "proposal.superseded", None, detail)?;
            work.save(&mut stored, changed)?;
            Ok(RebaseOutcome { proposal: work.complete(stored), conflicts: Vec::new() })
        })
    }
}
