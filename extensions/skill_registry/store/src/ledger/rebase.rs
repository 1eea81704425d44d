//! Making a proposal fit a file that changed in the meantime.

use serde_json::json;

use crate::db::Stored;
use crate::diff;
use crate::ledger::Ledger;
use crate::ledger::error::{LedgerError, LedgerErrorKind};
use crate::ledger::examine::Text;
use crate::ledger::place::{Subject, existing};
use crate::ledger::proposal::{Actor, Drift, Proposal, ProposalState, Rebased};
use crate::ledger::revise::{base_of, log, require, reword, subject_of};
use crate::ledger::session::Session;
use crate::snapshot::Snapshot;

/// What merging came to.
enum Merged {
    /// The file is what the proposal was made for.
    Same,
    /// The file says already what the proposal wants.
    Superfluous,
    Text(String),
    Conflicts(Vec<diff::MergeConflict>),
}

impl Ledger {
    /// Says how a proposal's file has moved since the proposal was made; reads the skill only.
    #[must_use]
    pub fn drift(&self, snapshot: &Snapshot, proposal: &Proposal) -> Drift {
        let Ok(subject) = subject_of(snapshot, proposal) else { return Drift::Gone };
        let known = proposal.summary.base_digest;
        if known.is_some() && !matches!(existing(snapshot, &subject.skill_id), Ok(Some(_))) {
            return Drift::Gone;
        }
        match subject.read() {
            Ok(current) if current.as_ref().map(|text| text.digest) == known => Drift::Unchanged,
            Ok(current) => Drift::Moved {
                mergeable: !matches!(
                    merge(&subject, proposal, current.as_ref()),
                    Err(_) | Ok(Merged::Conflicts(_))
                ),
                current: current.map(|text| text.digest),
            },
            Err(_) => Drift::Moved { current: None, mergeable: false },
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
        actor: &Actor,
        id: &str,
    ) -> Result<Rebased, LedgerError> {
        self.with(|session| {
            session.settle(snapshot)?;
            let stored = session.read(|work| work.find(id))?;
            use ProposalState::{Failed, Open, Stale};
            require(&stored, &[Open, Stale, Failed], "rebased")?;
            let subject = subject_of(snapshot, &stored.proposal)?;
            let current = subject.read()?;
            if let (None, Some(_)) = (&current, stored.proposal.summary.base_digest) {
                return Err(LedgerError::new(
                    LedgerErrorKind::Conflict,
                    format!("{} is gone", subject.location().display()),
                    "restore the file, or reject the proposal",
                ));
            }
            match merge(&subject, &stored.proposal, current.as_ref())? {
                Merged::Conflicts(conflicts) => session.read(|work| {
                    let proposal = work.complete(stored.clone());
                    Ok(Rebased { proposal, conflicts: conflicts.clone() })
                }),
                Merged::Same => session.reopen(stored, actor, None),
                Merged::Superfluous => session.supersede(stored, actor),
                Merged::Text(text) => {
                    let mut stored = stored;
                    reword(&subject, &mut stored.proposal, current.as_ref(), &text)?;
                    session.reopen(stored, actor, current.as_ref())
                }
            }
        })
    }
}

fn merge(
    subject: &Subject,
    proposal: &Proposal,
    current: Option<&Text>,
) -> Result<Merged, LedgerError> {
    let summary = &proposal.summary;
    let digest = current.map(|current| current.digest);
    if digest == summary.base_digest && proposal.new_text.is_some() {
        return Ok(Merged::Same);
    }
    if digest == Some(summary.new_digest) {
        return Ok(Merged::Superfluous);
    }
    let now = current.map_or("", |current| current.text.as_str());
    let known = summary.base_digest.is_none() || proposal.base_text.is_some();
    let merged = match &proposal.new_text {
        Some(new) if known => {
            let base = base_of(proposal).map(|base| base.text).unwrap_or_default();
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
        Ok(text) if text == now => Merged::Superfluous,
        Ok(text) => Merged::Text(text),
        Err(conflicts) => Merged::Conflicts(conflicts),
    })
}

impl Session<'_> {
    /// Has a proposal wait for a decision again.
    fn reopen(
        &mut self,
        mut stored: Stored,
        actor: &Actor,
        base: Option<&Text>,
    ) -> Result<Rebased, LedgerError> {
        let before = stored.proposal.summary.state;
        if before == ProposalState::Open && base.is_none() {
            return self.read(|work| {
                Ok(Rebased { proposal: work.complete(stored), conflicts: Vec::new() })
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
            let changed = log(work, &stored, actor, "proposal.rebased", None, detail)?;
            work.save(&mut stored, changed)?;
            Ok(Rebased { proposal: work.complete(stored), conflicts: Vec::new() })
        })
    }

    /// Ends a proposal that has nothing left to change.
    fn supersede(&mut self, mut stored: Stored, actor: &Actor) -> Result<Rebased, LedgerError> {
        stored.proposal.summary.state = ProposalState::Superseded;
        self.change(|work| {
            let detail = json!({"because": "the file says the same already"});
            let changed = log(work, &stored, actor, "proposal.superseded", None, detail)?;
            work.save(&mut stored, changed)?;
            Ok(Rebased { proposal: work.complete(stored), conflicts: Vec::new() })
        })
    }
}
