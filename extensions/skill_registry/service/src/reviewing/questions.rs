//! Proposals as questions to people: the bytes that are decided on, and how a proposal ended.

use serde::Serialize;
use skill_format::{Digest, sanitize_line};
use skill_ledger::{
    AcceptanceEvidence, AuditFilter, Ledger, LedgerError, LedgerErrorKind, LintDelta,
    ModelEvidence, Proposal, ProposalFilter, ProposalState, ReviewFlag,
};
use skillhost_payload::{OperatorCommand, ReviewOutcome, ReviewQuestion};

/// The size limit of a subject that people are shown as a unit, in bytes.
const MAX_SUBJECT: usize = 1024 * 1024;

/// The number of audit entries in which the way of a decision is looked up.
const MAX_ENTRIES: usize = 20;

/// The bytes that are decided on. They do not change until the proposal itself does: advice and
/// repeated submissions are not among them.
#[derive(Serialize)]
struct ProposalSubject<'a> {
    proposal: &'a str,
    skill: &'a str,
    path: &'a str,
    author: &'a str,
    justification: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    evidence: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    flags: &'a [ReviewFlag],
    base_digest: Option<Digest>,
    /// The digest of the new text and of its checks.
    new_digest: Digest,
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<&'a AcceptanceEvidence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_check: Option<&'a ModelEvidence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lint: Option<&'a LintDelta>,
    tokens: (u32, u32),
    /// The reason for which it cannot be approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    obstacle: Option<String>,
}

/// Lists the proposals that wait for a decision, the oldest first, and then the `known` others.
///
/// # Errors
/// Those of the disk and the database.
pub fn list_review_questions(
    ledger: &Ledger,
    known: &[String],
) -> Result<Vec<ReviewQuestion>, LedgerError> {
    let waiting = ledger.proposals(ProposalFilter::default())?;
    let mut ids: Vec<String> = waiting.into_iter().map(|summary| summary.id).collect();
    for id in known {
        if !ids.contains(id) {
            ids.push(id.clone());
        }
    }
    let mut questions = Vec::with_capacity(ids.len());
    for id in &ids {
        match ledger.proposal(id) {
            Ok(proposal) => questions.push(to_question(ledger, &proposal)?),
            // Its ledger was replaced by an older one.
            Err(error) if error.reason() == LedgerErrorKind::NotFound => {
                questions.push(missing_question(id));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(questions)
}

fn to_question(ledger: &Ledger, proposal: &Proposal) -> Result<ReviewQuestion, LedgerError> {
    let summary = &proposal.summary;
    let review = OperatorCommand::ReviewProposals { id: Some(&summary.id) };
    let rebase = OperatorCommand::RebaseProposal { id: &summary.id };
    let mut obstacle = match summary.state {
        ProposalState::Stale => Some(format!("the file has changed since; rebase it: {rebase}")),
        ProposalState::Failed => Some(format!("it could not be written; rebase it: {rebase}")),
        _ => None,
    };
    // An empty diff means that its text is lost: no change could be inspected.
    if proposal.diff.is_empty() {
        obstacle = Some(format!("its text is lost; inspect it: {review}"));
    }
    let mut subject = ProposalSubject {
        proposal: &summary.id,
        skill: &summary.skill_id,
        path: &summary.path,
        author: &summary.author.agent_id,
        justification: &proposal.justification,
        evidence: &proposal.evidence,
        flags: &summary.flags,
        base_digest: summary.base_digest,
        new_digest: summary.review_digest(),
        check: summary.acceptance.as_ref(),
        model_check: summary.model_evidence.as_ref(),
        diff: Some(&proposal.diff),
        lint: Some(&proposal.lint),
        tokens: proposal.tokens,
        obstacle,
    };
    let mut text = to_json(&subject);
    if text.len() > MAX_SUBJECT {
        (subject.diff, subject.lint, subject.evidence) = (None, None, &[]);
        subject.obstacle = Some(format!("it is too long for this place; inspect it: {review}"));
        text = to_json(&subject);
    }
    let is_complete = subject.obstacle.is_none();
    Ok(ReviewQuestion {
        proposal: summary.id.clone(),
        asker: summary.author.agent_id.clone(),
        title: sanitize_line(&format!("change {} of `{}`", summary.path, summary.skill_id)),
        subject: text,
        can_approve: is_complete,
        outcome: find_outcome(ledger, proposal)?,
    })
}

fn to_json(subject: &ProposalSubject<'_>) -> String {
    // A struct of texts and numbers is always valid JSON.
    serde_json::to_string(subject).unwrap_or_default()
}

fn missing_question(id: &str) -> ReviewQuestion {
    let reason = Some("the proposal does not exist".to_owned());
    ReviewQuestion {
        proposal: id.to_owned(),
        asker: String::new(),
        title: String::new(),
        subject: String::new(),
        can_approve: false,
        outcome: Some(ReviewOutcome { reason, ..ReviewOutcome::default() }),
    }
}

/// Returns the end of a proposal, or `None` while it waits.
fn find_outcome(
    ledger: &Ledger,
    proposal: &Proposal,
) -> Result<Option<ReviewOutcome>, LedgerError> {
    let summary = &proposal.summary;
    let (approved, action) = match summary.state {
        ProposalState::Open | ProposalState::Stale | ProposalState::Failed => return Ok(None),
        ProposalState::Approved | ProposalState::Applied => (Some(true), "proposal.approved"),
        ProposalState::Rejected => (Some(false), "proposal.rejected"),
        ProposalState::Superseded => {
            let reason = Some("the file received the same text in another way".to_owned());
            return Ok(Some(ReviewOutcome { reason, ..ReviewOutcome::default() }));
        }
    };
    let filter = AuditFilter {
        proposal: Some(&summary.id),
        limit: Some(MAX_ENTRIES),
        ..AuditFilter::default()
    };
    let entries = ledger.audit(filter)?;
    let via = entries.into_iter().rev().find(|entry| entry.action == action);
    let decided = proposal.decided.clone();
    Ok(Some(ReviewOutcome {
        approved,
        by: decided.as_ref().map(|decided| decided.by.clone()).unwrap_or_default(),
        via: via.map(|entry| entry.via).unwrap_or_default(),
        reason: decided.and_then(|decided| decided.reason),
    }))
}
