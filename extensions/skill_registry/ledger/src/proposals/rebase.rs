//! Rebase of a proposal onto a file that has changed since.

use serde_json::json;
use skill_catalog::Snapshot;

use crate::examine::DigestedText;
use crate::files::skill_directory::{ProposalTarget, find_skill};
use crate::ledger::Ledger;
use crate::proposals::stored::{base_text, find_target, log_action, replace_text, require_state};
use crate::records::error::{LedgerError, LedgerErrorKind};
use crate::records::proposal::{HumanActor, Proposal, ProposalDrift, ProposalState, RebaseOutcome};
use crate::session::LedgerSession;
use crate::sqlite::StoredProposal;

/// The result of a merge.
enum MergeOutcome {
    /// The file still is the base of the proposal.
    Same,
    /// The file already has the proposed text.
    AlreadyApplied,
    Text(String),
    Conflicts(Vec<skill_diff::MergeConflict>),
}

impl Ledger {
    /// Compares a proposal's base with the current file; changes neither.
    #[must_use]
    pub fn compute_drift(&self, snapshot: &Snapshot, proposal: &Proposal) -> ProposalDrift {
        let Ok(target) = find_target(snapshot, proposal) else { return ProposalDrift::Gone };
        let known = proposal.summary.base_digest;
        // A proposal for an existing skill; without a base it proposes a new one.
        if known.is_some() && !matches!(find_skill(snapshot, &target.skill_id), Ok(Some(_))) {
            return ProposalDrift::Gone;
        }
        match target.read() {
            Ok(current) if current.as_ref().map(|text| text.digest) == known => {
                ProposalDrift::Unchanged
            }
            Ok(current) => ProposalDrift::Moved {
                mergeable: !matches!(
                    merge_proposal(&target, proposal, current.as_ref()),
                    Err(_) | Ok(MergeOutcome::Conflicts(_))
                ),
                current: current.map(|text| text.digest),
            },
            Err(_) => ProposalDrift::Moved { current: None, mergeable: false },
        }
    }

    /// Merges a proposal with the later changes of its file; the proposal is then open, with
    /// another base and digest. If both changed the same lines, the proposal is not changed and the
    /// conflicts are returned.
    ///
    /// # Errors
    /// [`LedgerErrorKind::NotFound`] and [`LedgerErrorKind::Ambiguous`] for the id,
    /// [`LedgerErrorKind::State`] if it is decided, [`LedgerErrorKind::Conflict`] if the file is
    /// missing, [`LedgerErrorKind::Invalid`] if the merged text would not load; those of the disk
    /// and the database.
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
            let target = find_target(snapshot, &stored.proposal)?;
            let current = target.read()?;
            if let (None, Some(_)) = (&current, stored.proposal.summary.base_digest) {
                return Err(LedgerError::new(
                    LedgerErrorKind::Conflict,
                    format!("{} not found", target.location().display()),
                    "restore the file, or reject the proposal",
                ));
            }
            match merge_proposal(&target, &stored.proposal, current.as_ref())? {
                MergeOutcome::Conflicts(conflicts) => session.read(|work| {
                    let proposal = work.complete(stored.clone());
                    Ok(RebaseOutcome { proposal, conflicts: conflicts.clone() })
                }),
                MergeOutcome::Same => session.reopen(stored, actor, None),
                MergeOutcome::AlreadyApplied => session.supersede(stored, actor),
                MergeOutcome::Text(text) => {
                    let mut stored = stored;
                    replace_text(&target, &mut stored.proposal, current.as_ref(), &text)?;
                    self.examine_proposal(snapshot, &mut stored.proposal)?;
                    session.reopen(stored, actor, current.as_ref())
                }
            }
        })
    }
}

fn merge_proposal(
    target: &ProposalTarget,
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
            skill_diff::merge_texts(&base, now, new)
        }
        // The texts were lost with the database; only the diff remains.
        _ => match skill_diff::apply_diff(now, &proposal.diff, target.path.as_str()) {
            Ok(patched) => Ok(patched.text),
            Err(error) => {
                return Err(LedgerError::new(
                    LedgerErrorKind::DoesNotApply,
                    format!("the diff does not apply to {}: {error}", target.path),
                    "reject the proposal: its text was lost with the database",
                ));
            }
        },
    };
    Ok(match merged {
        // The other change includes the proposed one.
        Ok(text) if text == now => MergeOutcome::AlreadyApplied,
        Ok(text) => MergeOutcome::Text(text),
        Err(conflicts) => MergeOutcome::Conflicts(conflicts),
    })
}

impl LedgerSession<'_> {
    /// Opens a proposal again.
    fn reopen(
        &mut self,
        mut stored: StoredProposal,
        actor: &HumanActor,
        base: Option<&DigestedText>,
    ) -> Result<RebaseOutcome, LedgerError> {
        let before = stored.proposal.summary.state;
        // Not changed at all: no entry in the audit log and no new file.
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
            work.save_acceptance(&stored, changed)?;
            Ok(RebaseOutcome { proposal: work.complete(stored), conflicts: Vec::new() })
        })
    }

    /// Closes a proposal that has no change left.
    fn supersede(
        &mut self,
        mut stored: StoredProposal,
        actor: &HumanActor,
    ) -> Result<RebaseOutcome, LedgerError> {
        stored.proposal.summary.state = ProposalState::Superseded;
        self.change(|work| {
            let detail = json!({"because": "the file already has this text"});
            let changed = log_action(work, &stored, actor, "proposal.superseded", None, detail)?;
            work.save(&mut stored, changed)?;
            Ok(RebaseOutcome { proposal: work.complete(stored), conflicts: Vec::new() })
        })
    }
}
