//! The check of a proposal: before it is recorded, after a person edits it, before its approval.

use skill_catalog::Snapshot;
use skill_evals::{TextChange, compare_skill_texts, is_repeated_edit, shingles_of_diff};
use skill_format::Digest;
use skill_rules::fmt::{FmtOptions, format_skill};

use crate::ledger::Ledger;
use crate::proposals::stored::{log_action, require_state};
use crate::records::acceptance::{AcceptanceEvidence, ProposedChange};
use crate::records::error::{LedgerError, LedgerErrorKind};
use crate::records::model_evidence::ModelEvidence;
use crate::records::proposal::{HumanActor, Proposal, ProposalState};

/// The rejected edits of a file that a new one is compared with, the newest first.
pub(crate) const MAX_REJECTED: usize = 200;

impl Ledger {
    /// Runs the check of this ledger, if it has one.
    pub(crate) fn examine(
        &self,
        snapshot: &Snapshot,
        change: &ProposedChange<'_>,
    ) -> Result<Option<AcceptanceEvidence>, LedgerError> {
        match &self.check {
            Some(check) => check.examine(snapshot, change),
            None => Ok(None),
        }
    }

    /// Checks a proposal whose text a person changed.
    pub(crate) fn examine_proposal(
        &self,
        snapshot: &Snapshot,
        proposal: &mut Proposal,
    ) -> Result<(), LedgerError> {
        let summary = &proposal.summary;
        let Some(new) = proposal.new_text.as_deref() else { return Ok(()) };
        let change = ProposedChange {
            skill_id: &summary.skill_id,
            path: &summary.path,
            base: proposal.base_text.as_deref(),
            new,
        };
        proposal.summary.acceptance = self.examine(snapshot, &change)?;
        Ok(())
    }

    /// Checks a proposal again before it is approved, and refuses the approval if the result is
    /// another one or requires a reason. Returns the objections that the reason overrides.
    pub(crate) fn renew_acceptance(
        &self,
        snapshot: &Snapshot,
        actor: &HumanActor,
        id: &str,
        digest: Digest,
        reason: Option<&str>,
    ) -> Result<Vec<String>, LedgerError> {
        let Some(check) = &self.check else { return Ok(Vec::new()) };
        // Outside of the lock, as for a new proposal.
        let stored = self.with_session(|session| session.read(|work| work.find(id)))?.proposal;
        let summary = &stored.summary;
        // The approval itself reports other states and digests.
        let is_reviewed = summary.state == ProposalState::Open && summary.review_digest() == digest;
        let Some(new) = stored.new_text.as_deref().filter(|_| is_reviewed) else {
            return Ok(Vec::new());
        };
        let change = ProposedChange {
            skill_id: &summary.skill_id,
            path: &summary.path,
            base: stored.base_text.as_deref(),
            new,
        };
        let mut objections = match self.examine(snapshot, &change)? {
            Some(found) => self.require_same(actor, &stored, found)?,
            None => self.require_no_known_objection(actor, &stored)?,
        };
        let evidence = summary.model_evidence.as_ref();
        objections.extend(check.find_model_objection(snapshot, &change, evidence));
        let has_reason = reason.is_some_and(|reason| !reason.trim().is_empty());
        // An agent does not approve a disadvantage, even with a reason.
        if !objections.is_empty() && (actor.via == "agent" || !has_reason) {
            return Err(refused_error(
                format!("the check has objections: {}", objections.join("; ")),
                "a person can approve it with a reason that is not empty",
            ));
        }
        Ok(objections)
    }

    /// Refuses the approval of a proposal that the review shows with objections, where the check has no
    /// result any more.
    fn require_no_known_objection(
        &self,
        actor: &HumanActor,
        stored: &Proposal,
    ) -> Result<Vec<String>, LedgerError> {
        match &stored.summary.acceptance {
            Some(known) if !known.regressions.is_empty() || !known.leaks.is_empty() => {
                let found = AcceptanceEvidence {
                    cases: String::new(),
                    regressions: Vec::new(),
                    leaks: Vec::new(),
                    queries: 0,
                    passed_before: 0,
                    passed_after: 0,
                    ..known.clone()
                };
                self.require_same(actor, stored, found)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Compares the result of the check with the one that was reviewed, and returns its objections.
    /// Another result is recorded and has to be reviewed.
    fn require_same(
        &self,
        actor: &HumanActor,
        stored: &Proposal,
        found: AcceptanceEvidence,
    ) -> Result<Vec<String>, LedgerError> {
        let summary = &stored.summary;
        let is_clean = found.regressions.is_empty() && found.leaks.is_empty();
        let stale = match &summary.acceptance {
            None => (!is_clean).then_some("it was not checked before"),
            Some(known) => known.find_difference(&found),
        };
        let Some(part) = stale else {
            return Ok(found.regressions.into_iter().chain(found.leaks).collect());
        };
        // Recorded, so that the next review shows the result that will be approved.
        self.with_session(|session| {
            session.change(|work| {
                let detail = serde_json::json!({ "reason": part });
                let stored = work.find(&summary.id)?;
                let changed = log_action(work, &stored, actor, "proposal.checked", None, detail)?;
                work.put_acceptance(&summary.id, &found, changed)
            })
        })?;
        Err(LedgerError::new(
            LedgerErrorKind::Stale,
            format!("evidence is stale: {part}"),
            "the check ran again; review its result, and approve its digest",
        ))
    }

    /// Records the result of runs with a model for an open proposal. Its digest for reviewers is
    /// another one afterwards.
    ///
    /// # Errors
    /// [`LedgerErrorKind::NotFound`] and [`LedgerErrorKind::Ambiguous`] for the id,
    /// [`LedgerErrorKind::State`] if the proposal is not open, [`LedgerErrorKind::Digest`] if the
    /// runs tested another text or base; those of the disk and the database.
    pub fn record_model_evidence(
        &self,
        actor: &HumanActor,
        id: &str,
        evidence: &ModelEvidence,
    ) -> Result<(), LedgerError> {
        self.with_session(|session| {
            session.change(|work| {
                let stored = work.find(id)?;
                require_state(&stored, &[ProposalState::Open], "tested")?;
                let summary = &stored.proposal.summary;
                if (summary.base_digest, summary.new_digest) != (evidence.base, evidence.new) {
                    return Err(LedgerError::new(
                        LedgerErrorKind::Digest,
                        format!("proposal {} changed while it was tested", summary.id),
                        "test it again",
                    ));
                }
                let detail = serde_json::json!({ "evidence": evidence });
                let changed = log_action(work, &stored, actor, "proposal.tested", None, detail)?;
                work.put_model_evidence(&summary.id, evidence, changed)
            })
        })
    }

    /// Refuses the change of an agent whose evidence does not allow it.
    pub(crate) fn require_accepted(&self, found: &AcceptanceEvidence) -> Result<(), LedgerError> {
        if !found.leaks.is_empty() {
            return Err(refused_error(
                format!("leak: the text has words of cases: {}", found.leaks.join(", ")),
                "describe the task in general, not the cases that test it",
            ));
        }
        let is_required = self.check.as_ref().is_some_and(|check| check.is_required());
        if is_required && !found.regressions.is_empty() {
            return Err(refused_error(
                format!("routing: {}", hide_held_out(&found.regressions).join("; ")),
                "keep the words by which the skills are found, and propose it again",
            ));
        }
        Ok(())
    }
}

/// Returns the lines that the author of a change may read: of held-out cases only the number.
fn hide_held_out(regressions: &[String]) -> Vec<String> {
    let is_held_out = |line: &&String| {
        let name = line.split(' ').next().unwrap_or_default();
        name.contains("/held-out/")
    };
    let hidden = regressions.iter().filter(is_held_out).count();
    let mut lines: Vec<String> =
        regressions.iter().filter(|line| !is_held_out(line)).cloned().collect();
    match hidden {
        0 => {}
        1 => lines.push("1 held-out case".to_owned()),
        count => lines.push(format!("{count} held-out cases")),
    }
    lines
}

/// Refuses a change that only moves white space, or that brings a SKILL.md into its canonical form.
pub(crate) fn require_change(change: &ProposedChange<'_>) -> Result<(), LedgerError> {
    let Some(base) = change.base else { return Ok(()) };
    // In other files, such as scripts, white space may have a meaning anywhere.
    if !change.path.to_ascii_lowercase().ends_with(".md") {
        return Ok(());
    }
    let is_skill_file = change.path.eq_ignore_ascii_case("SKILL.md");
    let canonical = |text: &str| format_skill(text, FmtOptions::default()).ok().map(|it| it.text);
    let is_same_form = || match (canonical(base), canonical(change.new)) {
        (Some(base), Some(new)) => compare_skill_texts(&base, &new) != TextChange::Changed,
        // A text that has no canonical form is compared as it is.
        _ => false,
    };
    let is_cosmetic = compare_skill_texts(base, change.new) == TextChange::Cosmetic
        || is_skill_file && is_same_form();
    if !is_cosmetic {
        return Ok(());
    }
    Err(refused_error(
        "cosmetic: only white space or the form differs",
        "leave the form to the formatter; propose what a reader should do differently",
    ))
}

/// Refuses a change that was rejected before.
pub(crate) fn require_new_edit(
    diff: &str,
    new: Digest,
    rejected: &[Proposal],
) -> Result<(), LedgerError> {
    // The texts of rejected proposals may be pruned; their diffs are kept.
    let edit = shingles_of_diff(diff);
    let repeats = |known: &&Proposal| {
        known.summary.new_digest == new || is_repeated_edit(&edit, &shingles_of_diff(&known.diff))
    };
    let Some(known) = rejected.iter().find(repeats) else { return Ok(()) };
    debug_assert_eq!(known.summary.state, ProposalState::Rejected);
    let at = known.decided.as_ref().map_or(known.summary.created_ms, |decided| decided.at_ms);
    let reason = known.decided.as_ref().and_then(|decided| decided.reason.as_deref());
    Err(refused_error(
        format!(
            "repeated: proposal {} made this change and was rejected on {}: {}",
            known.summary.id,
            skillhost_payload::format_rfc3339(at),
            reason.unwrap_or("without a reason")
        ),
        "propose another change; the reason says what the reviewer missed",
    ))
}

fn refused_error(message: impl Into<String>, hint: &str) -> LedgerError {
    LedgerError::new(LedgerErrorKind::Refused, message, hint)
}
