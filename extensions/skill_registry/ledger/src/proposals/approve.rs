//! Approval of a proposal, and its application to the skill.

use serde_json::json;
use skill_catalog::{Advice, NextStep, Snapshot};
use skill_format::Digest;

use crate::changes::record::{mark_stale, record_version};
use crate::files::skill_directory::ProposalTarget;
use crate::files::tree::{CapturedTree, read_tree};
use crate::ledger::Ledger;
use crate::proposals::stored::{find_target, log_action, require_state};
use crate::records::error::{LedgerError, LedgerErrorKind, rebase_advice};
use crate::records::event::LedgerEvent;
use crate::records::limits::check_reason;
use crate::records::proposal::{ApplyOutcome, HumanActor, ProposalDecision, ProposalState};
use crate::records::version::VersionAuthor;
use crate::session::{LedgerSession, LedgerWork};
use crate::sqlite::{ChangeIntent, IntentFile, StoredProposal};

impl Ledger {
    /// Approves an open proposal and applies it: the file is replaced as a unit, if it still is the
    /// base of the proposal.
    ///
    /// `digest` is that of the text and the check that the person reviewed, see
    /// [`ProposalSummary::review_digest`](crate::ProposalSummary::review_digest). The check runs
    /// again: if its result differs, the new one is recorded and has to be reviewed first.
    ///
    /// # Errors
    /// [`LedgerErrorKind::NotFound`] and [`LedgerErrorKind::Ambiguous`] for the id,
    /// [`LedgerErrorKind::State`] if the proposal is not open, [`LedgerErrorKind::Digest`] if it has
    /// another text, [`LedgerErrorKind::Stale`] if the file has changed (the proposal is stale then)
    /// or if the result of the check has, [`LedgerErrorKind::Refused`] without a reason for a
    /// proposal that makes a case fail or whose runs with a model require one;
    /// those of the disk and the database (the proposal is open as before, unless the message says
    /// otherwise).
    pub fn approve(
        &self,
        snapshot: &Snapshot,
        actor: &HumanActor,
        id: &str,
        digest: Digest,
        reason: Option<&str>,
    ) -> Result<ApplyOutcome, LedgerError> {
        check_reason("the reason", reason.unwrap_or_default())?;
        let overridden = self.renew_acceptance(snapshot, actor, id, digest, reason)?;
        self.with_session(|session| {
            session.restore_texts(snapshot)?;
            let stored = session.read(|work| work.find(id))?;
            require_state(&stored, &[ProposalState::Open], "approved")?;
            let summary = &stored.proposal.summary;
            if summary.review_digest() != digest {
                return Err(LedgerError::new(
                    LedgerErrorKind::Digest,
                    format!(
                        "proposal {} has the digest {}, not {digest}",
                        summary.id,
                        summary.review_digest()
                    ),
                    "review it again: its text differs from the one that was reviewed",
                ));
            }
            let target = find_target(snapshot, &stored.proposal)?;
            session.check_no_pending(&target.skill_id)?;
            let now = target.read()?.map(|text| text.digest);
            // A file that already has the new text is fine: an interrupted approval may have
            // written it.
            if now != summary.base_digest && now != Some(summary.new_digest) {
                return Err(session.reject_stale(&stored, &target, now));
            }
            session.apply(stored, &target, actor, reason, &overridden)
        })
    }
}

impl LedgerSession<'_> {
    /// Marks a proposal as stale and returns the error for it.
    fn reject_stale(
        &mut self,
        stored: &StoredProposal,
        target: &ProposalTarget,
        now: Option<Digest>,
    ) -> LedgerError {
        let path = target.path.as_str();
        let summary = &stored.proposal.summary;
        let known = |wanted: &str| (wanted == path).then_some(now);
        let recorded = self.change(|work| mark_stale(work, &target.skill_id, &known));
        if let Err(error) = recorded {
            return error;
        }
        LedgerError::new(
            LedgerErrorKind::Stale,
            format!("{} has changed since the proposal was made", target.location().display()),
            rebase_advice(&summary.id),
        )
    }

    fn apply(
        &mut self,
        mut stored: StoredProposal,
        target: &ProposalTarget,
        actor: &HumanActor,
        reason: Option<&str>,
        overridden: &[String],
    ) -> Result<ApplyOutcome, LedgerError> {
        let captured = read_tree(&target.place)?;
        let summary = &stored.proposal.summary;
        let path = target.path.to_string();
        let file = IntentFile {
            path: path.clone(),
            old: summary.base_digest,
            new: Some(summary.new_digest),
            // A proposal changes text only; the executable bits stay.
            mode: captured.file(&path).map_or(0, |file| file.mode),
        };
        let author = VersionAuthor::Agent(summary.author.clone());
        let mut intent = ChangeIntent {
            proposal: Some(summary.id.clone()),
            reason: reason.map(str::to_owned),
            files: vec![file],
            ..ChangeIntent::for_person(actor, &target.skill_id, &target.place, author)
        };
        let mut events = self.change(|work| {
            let files = (target, &captured);
            record_approval(work, &mut stored, files, actor, &mut intent, overridden)
        })?;
        // Outside of the transaction: the decision has to survive a crash while files are written.
        let finished = self.execute(&intent)?;
        events.extend(finished.events);
        Ok(ApplyOutcome {
            skill_id: intent.skill_id,
            proposal: intent.proposal,
            version: finished.version,
            tree: finished.tree,
            files: vec![path],
            events,
        })
    }
}

/// Records a decision and the intent that follows from it, with all texts that they refer to.
fn record_approval(
    work: &LedgerWork<'_, '_>,
    stored: &mut StoredProposal,
    (target, captured): (&ProposalTarget, &CapturedTree),
    actor: &HumanActor,
    intent: &mut ChangeIntent,
    overridden: &[String],
) -> Result<Vec<LedgerEvent>, LedgerError> {
    let new_digest = stored.proposal.summary.new_digest;
    // Read again by its digest: a damaged stored text must never reach the skill.
    let Some(new) = work.verified(new_digest, Some(captured))? else {
        let id = &stored.proposal.summary.id;
        let step = NextStep::RejectProposal { id: id.clone() };
        let otherwise = Advice::from("reject it with ").with_step(step);
        let what = format!("proposal {id} of `{}`", target.skill_id);
        return Err(LedgerError::damaged_text(&what, &target.location(), new_digest, otherwise));
    };
    work.add_blobs([(new_digest, &*new)])?;
    // The current files become a version first, so that a rollback finds direct edits.
    work.add_blobs(captured.contents())?;
    let external = VersionAuthor::External;
    let (before, edited) =
        record_version(work, &target.skill_id, &target.place, captured, &external)?;
    intent.before = before;
    stored.proposal.summary.state = ProposalState::Approved;
    stored.proposal.decided = Some(ProposalDecision {
        by: actor.name.clone(),
        at_ms: work.now_ms(),
        reason: intent.reason.clone(),
    });
    let event = LedgerEvent::ProposalApproved(stored.proposal.to_event(&actor.name));
    let summary = &stored.proposal.summary;
    let mut detail =
        json!({"base": summary.base_digest, "new": summary.new_digest, "reason": intent.reason});
    // The audit log has to show that a person decided against the check.
    if !overridden.is_empty() {
        detail["overridden"] = json!(overridden);
    }
    let changed = log_action(work, stored, actor, "proposal.approved", Some(&event), detail)?;
    work.save(stored, changed)?;
    work.add_intent(intent, changed)?;
    Ok(edited.into_iter().chain([event]).collect())
}
