//! The check of a change before a person sees it.

use std::fmt;

use serde::{Deserialize, Serialize};
use skill_catalog::Snapshot;
use skill_format::Digest;

use crate::ledger::Ledger;
use crate::proposals::stored::log_action;
use crate::records::error::{LedgerError, LedgerErrorKind};
use crate::records::proposal::{HumanActor, Proposal, ProposalState};

/// The rejected edits of a skill that a new one is compared with, the newest first.
pub(crate) const MAX_REJECTED: usize = 200;

/// A change of a file that is checked.
#[derive(Clone, Copy, Debug)]
pub struct ProposedChange<'a> {
    /// The skill.
    pub skill_id: &'a str,
    /// The file, relative to the skill's directory.
    pub path: &'a str,
    /// The text before; `None` for a new file.
    pub base: Option<&'a str>,
    /// The text after.
    pub new: &'a str,
}

/// A check that compares a change with the cases of the home's skills.
pub trait ProposalCheck: Send + Sync + fmt::Debug {
    /// Checks a change; `None` if there is no case that it can be compared with. Blocks.
    ///
    /// # Errors
    /// The check could not run.
    fn examine(
        &self,
        snapshot: &Snapshot,
        change: &ProposedChange<'_>,
    ) -> Result<Option<AcceptanceEvidence>, LedgerError>;

    /// Returns whether a change that makes a case fail is refused; otherwise it is only shown.
    fn is_required(&self) -> bool;
}

/// The result of the check of a proposal. The person who approves the proposal approves exactly
/// this result with it, see [`ProposalSummary::review_digest`].
///
/// [`ProposalSummary::review_digest`]: crate::ProposalSummary::review_digest
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptanceEvidence {
    /// The digest of the text before; `None` for a new file.
    pub base: Option<Digest>,
    /// The digest of the text after.
    pub new: Digest,
    /// The digest of all cases, in hexadecimal digits.
    pub cases: String,
    /// The digest of the other skills that were searched, in hexadecimal digits.
    pub catalog: String,
    /// The version of the program that made the check.
    pub harness: String,
    /// The number of queries that were compared.
    pub queries: usize,
    /// The number of queries that passed before.
    pub passed_before: usize,
    /// The number of queries that pass with the change.
    pub passed_after: usize,
    /// The queries that passed before and fail with the change, one line each.
    pub regressions: Vec<String>,
    /// The cases whose text the change copies.
    pub leaks: Vec<String>,
}

impl AcceptanceEvidence {
    /// Returns the result on one line.
    #[must_use]
    pub fn describe(&self) -> String {
        let Self { queries, passed_before, passed_after, regressions, .. } = self;
        let worse = match regressions.len() {
            0 => "none is worse".to_owned(),
            1 => "1 is worse".to_owned(),
            count => format!("{count} are worse"),
        };
        format!("{queries} queries: {passed_before} passed before, {passed_after} now, {worse}")
    }
}

impl AcceptanceEvidence {
    /// Returns the part in which another result of the same change differs. Other skills may
    /// change as long as the result does not.
    fn find_difference(&self, other: &Self) -> Option<&'static str> {
        if self.cases != other.cases {
            Some("cases changed")
        } else if self.harness != other.harness {
            Some("the program changed")
        } else if (&self.base, &self.new) != (&other.base, &other.new) {
            Some("the skill changed")
        } else if (&self.regressions, &self.leaks, self.queries, self.passed_after)
            != (&other.regressions, &other.leaks, other.queries, other.passed_after)
        {
            Some("other skills changed")
        } else {
            None
        }
    }
}

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
    /// another one or requires a reason.
    pub(crate) fn renew_acceptance(
        &self,
        snapshot: &Snapshot,
        actor: &HumanActor,
        id: &str,
        digest: Digest,
        reason: Option<&str>,
    ) -> Result<(), LedgerError> {
        if self.check.is_none() {
            return Ok(());
        }
        let stored = self.with_session(|session| session.read(|work| work.find(id)))?.proposal;
        let summary = &stored.summary;
        // The approval itself reports other states and digests.
        let is_reviewed = summary.state == ProposalState::Open && summary.review_digest() == digest;
        let Some(new) = stored.new_text.as_deref().filter(|_| is_reviewed) else { return Ok(()) };
        let change = ProposedChange {
            skill_id: &summary.skill_id,
            path: &summary.path,
            base: stored.base_text.as_deref(),
            new,
        };
        let Some(found) = self.examine(snapshot, &change)? else { return Ok(()) };
        let is_clean = found.regressions.is_empty() && found.leaks.is_empty();
        let stale = match &summary.acceptance {
            None => (!is_clean).then_some("it was not checked before"),
            Some(known) => known.find_difference(&found),
        };
        if let Some(part) = stale {
            self.with_session(|session| {
                session.change(|work| {
                    let detail = serde_json::json!({ "reason": part });
                    let stored = work.find(id)?;
                    let changed =
                        log_action(work, &stored, actor, "proposal.checked", None, detail)?;
                    Ok(work.put_acceptance(&summary.id, &found, changed)?)
                })
            })?;
            return Err(LedgerError::new(
                LedgerErrorKind::Stale,
                format!("evidence is stale: {part}"),
                "the check ran again; review its result, and approve its digest",
            ));
        }
        // An agent may approve nothing that has a disadvantage, whatever its reason is.
        if !is_clean && (actor.via == "agent" || reason.is_none()) {
            return Err(refused(
                format!("routing: {}", found.regressions.join("; ")),
                "a person can approve it with a reason",
            ));
        }
        Ok(())
    }

    /// Refuses the change of an agent whose evidence does not allow it.
    pub(crate) fn require_accepted(&self, found: &AcceptanceEvidence) -> Result<(), LedgerError> {
        if !found.leaks.is_empty() {
            return Err(refused(
                format!("leak: the text has words of cases: {}", found.leaks.join(", ")),
                "describe the task in general, not the cases that test it",
            ));
        }
        let is_required = self.check.as_ref().is_some_and(|check| check.is_required());
        if is_required && !found.regressions.is_empty() {
            return Err(refused(
                format!("routing: {}", found.regressions.join("; ")),
                "keep the words by which the skills are found, and propose it again",
            ));
        }
        Ok(())
    }
}

/// Refuses a change that only moves white space.
pub(crate) fn require_change(base: Option<&str>, new: &str) -> Result<(), LedgerError> {
    let change = base.map(|base| skill_evals::compare_skill_texts(base, new));
    if change != Some(skill_evals::TextChange::Cosmetic) {
        return Ok(());
    }
    Err(refused(
        "cosmetic: only white space differs",
        "leave the form to `skillhost skill fmt`; propose what a reader should do differently",
    ))
}

/// Refuses a change that was rejected before.
pub(crate) fn require_new_edit(
    diff: &str,
    new: Digest,
    rejected: &[Proposal],
) -> Result<(), LedgerError> {
    let edit = skill_evals::shingles_of_diff(diff);
    let repeats = |known: &&Proposal| {
        known.summary.new_digest == new
            || skill_evals::is_repeated_edit(&edit, &skill_evals::shingles_of_diff(&known.diff))
    };
    let Some(known) = rejected.iter().find(repeats) else { return Ok(()) };
    debug_assert_eq!(known.summary.state, ProposalState::Rejected);
    let at = known.decided.as_ref().map_or(known.summary.created_ms, |decided| decided.at_ms);
    let reason = known.decided.as_ref().and_then(|decided| decided.reason.as_deref());
    Err(refused(
        format!(
            "repeated: proposal {} made this change and was rejected on {}: {}",
            known.summary.id,
            skillhost_payload::format_rfc3339(at),
            reason.unwrap_or("without a reason")
        ),
        "propose another change; the reason says what the reviewer missed",
    ))
}

fn refused(message: impl Into<String>, hint: &str) -> LedgerError {
    LedgerError::new(LedgerErrorKind::Refused, message, hint)
}
