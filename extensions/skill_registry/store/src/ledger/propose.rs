//! `propose_skill_update`: an agent's wish becomes a proposal, and nothing else.

use serde_json::json;
use skill_format::{Digest, FILE_LIMIT};

use crate::db::{NewAuditEntry, StoredProposal};
use crate::diff::{self, DiffError, FuzzNote};
use crate::ledger::Ledger;
use crate::ledger::error::{LedgerError, LedgerErrorKind};
use crate::ledger::event::{LedgerEvent, ProposalEvent};
use crate::ledger::examine::{ChangeExamination, DigestedText, examine_change};
use crate::ledger::place::{ProposalTarget, unknown_skill};
use crate::ledger::proposal::{
    AgentAuthor, Proposal, ProposalFileState, ProposalState, ProposalSummary, ProposeOutcome,
    ProposeRequest,
};
use crate::ledger::session::LedgerWork;
use crate::snapshot::Snapshot;

/// How many proposals may wait for a decision: for one skill, and in all.
const MAX_OPEN_PER_SKILL: u64 = 50;
pub(super) const MAX_OPEN_TOTAL: u64 = 500;

/// The largest justification or reason, in bytes.
pub(super) const MAX_REASON: usize = 8 << 10;

/// How many pieces of evidence a proposal has at most, and how many bytes each.
const MAX_EVIDENCE: usize = 20;
const MAX_PIECE: usize = 4 << 10;

/// The mark some editors put at the start of a text.
const BOM: char = '\u{feff}';

impl Ledger {
    /// Records an agent's proposal to change a file of a skill, or to add a skill; writes nothing to
    /// the skill.
    ///
    /// An identical proposal that is open already is counted instead.
    ///
    /// # Errors
    /// [`LedgerErrorKind::NotFound`] for an unknown skill, [`LedgerErrorKind::Argument`] and
    /// [`LedgerErrorKind::TooLarge`] for a request that cannot be one, [`LedgerErrorKind::Denied`]
    /// for a file that cannot be changed this way, [`LedgerErrorKind::DoesNotApply`] for a diff that
    /// does not fit the file, [`LedgerErrorKind::Invalid`] for a SKILL.md that would not load or
    /// gets new validation errors, [`LedgerErrorKind::Quota`] where too many proposals wait; those
    /// of the disk and the database.
    pub fn propose(
        &self,
        snapshot: &Snapshot,
        author: &AgentAuthor,
        request: &ProposeRequest,
    ) -> Result<ProposeOutcome, LedgerError> {
        check(request)?;
        let words: Vec<&str> = std::iter::once(&request.justification)
            .chain(&request.evidence)
            .map(String::as_str)
            .collect();
        self.with_session(|session| {
            session.restore_texts(snapshot)?;
            let subject =
                ProposalTarget::find(snapshot, &request.skill_id, request.path.as_deref())?;
            let base = subject.read()?;
            let made = new_text(&subject, base.as_ref(), request);
            // Whoever mistypes an id means another skill.
            if !subject.exists
                && !made.as_ref().is_ok_and(|(new, _)| has_matching_name(new, &subject))
            {
                return Err(unknown_skill(snapshot, &subject.skill_id));
            }
            let (new, fuzz) = made?;
            let old = base.as_ref().map(|base| base.text.as_str());
            let examined = examine_change(&subject, old, &new, &words)?;
            let made = DraftProposal {
                subject: &subject,
                author,
                request,
                base: &base,
                new,
                fuzz,
                examined,
            };
            session.change(|work| made.record(work))
        })
    }
}

/// Tells whether a new SKILL.md has the name of its directory, or does not say.
fn has_matching_name(text: &str, subject: &ProposalTarget) -> bool {
    let parsed = skill_format::parse_head(&subject.skill_id, text.as_bytes());
    let name = parsed.frontmatter.and_then(|frontmatter| frontmatter.name);
    name.is_none_or(|name| name == subject.skill_id)
}

/// Refuses a request for what it says, whatever the skill is.
fn check(request: &ProposeRequest) -> Result<(), LedgerError> {
    let argument = |message: String, hint: &str| {
        Err(LedgerError::new(LedgerErrorKind::Argument, message, hint))
    };
    let too_large = |message: String, hint: &str| {
        Err(LedgerError::new(LedgerErrorKind::TooLarge, message, hint))
    };
    match (&request.diff, &request.new_content) {
        (None, None) => {
            return argument(
                "there is neither a diff nor new_content".to_owned(),
                "give the change as a unified diff, or the whole new text as new_content",
            );
        }
        (Some(_), Some(_)) => {
            return argument(
                "there are both a diff and new_content".to_owned(),
                "give one of them",
            );
        }
        (Some(text), None) | (None, Some(text)) if text.len() > FILE_LIMIT => {
            return too_large(
                format!("the change has {} bytes, at most {FILE_LIMIT} are possible", text.len()),
                "propose smaller changes, one at a time",
            );
        }
        _ => {}
    }
    if request.justification.trim().is_empty() {
        return argument(
            "the justification is empty".to_owned(),
            "say why the change is good: it is decided by that",
        );
    }
    check_reason("the justification", &request.justification)?;
    if request.evidence.len() > MAX_EVIDENCE {
        return too_large(
            format!(
                "there are {} pieces of evidence, at most {MAX_EVIDENCE} are possible",
                request.evidence.len()
            ),
            "keep the strongest",
        );
    }
    match request.evidence.iter().map(String::len).max() {
        Some(length) if length > MAX_PIECE => too_large(
            format!("a piece of evidence has {length} bytes, at most {MAX_PIECE} are possible"),
            "keep what shows it",
        ),
        _ => Ok(()),
    }
}

/// Refuses a reason that is too long.
pub(super) fn check_reason(what: &str, text: &str) -> Result<(), LedgerError> {
    if text.len() <= MAX_REASON {
        return Ok(());
    }
    Err(LedgerError::new(
        LedgerErrorKind::TooLarge,
        format!("{what} has {} bytes, at most {MAX_REASON} are possible", text.len()),
        "say it shorter",
    ))
}

/// Makes the new text of a file.
fn new_text(
    subject: &ProposalTarget,
    base: Option<&DigestedText>,
    request: &ProposeRequest,
) -> Result<(String, Vec<FuzzNote>), LedgerError> {
    let before = base.map_or("", |base| base.text.as_str());
    if let Some(text) = &request.new_content {
        // Models write LF; a file that has CRLF everywhere keeps it.
        let crlf = before.matches("\r\n").count();
        let only_crlf = crlf > 0 && crlf == before.matches('\n').count();
        return Ok(if only_crlf && !text.contains('\r') {
            (text.replace('\n', "\r\n"), Vec::new())
        } else {
            (text.clone(), Vec::new())
        });
    }
    let diff = request.diff.as_deref().unwrap_or_default();
    // Nobody who was shown the text has seen the mark.
    let (mark, before) = match before.strip_prefix(BOM) {
        Some(rest) => (Some(BOM), rest),
        None => (None, before),
    };
    let patched = diff::apply_diff(before, diff, subject.path.as_str()).map_err(|error| {
        let kind = match error {
            DiffError::TooLarge { .. } => LedgerErrorKind::TooLarge,
            _ => LedgerErrorKind::DoesNotApply,
        };
        LedgerError::new(
            kind,
            format!("the diff does not apply to {}: {error}", subject.path),
            "read the file again and make the diff against what it says now, or give new_content",
        )
    })?;
    Ok((mark.into_iter().chain(patched.text.chars()).collect(), patched.fuzz))
}

/// A proposal about to be recorded.
struct DraftProposal<'a> {
    subject: &'a ProposalTarget,
    author: &'a AgentAuthor,
    request: &'a ProposeRequest,
    base: &'a Option<DigestedText>,
    new: String,
    fuzz: Vec<FuzzNote>,
    examined: ChangeExamination,
}

impl DraftProposal<'_> {
    fn record(self, work: &LedgerWork<'_, '_>) -> Result<ProposeOutcome, LedgerError> {
        let skill_id = self.subject.skill_id.as_str();
        let base_digest = self.base.as_ref().map(|base| base.digest);
        let new_digest = Digest::compute(self.new.as_bytes());
        for waiting in work.undecided_proposals(skill_id)? {
            if waiting.state == ProposalState::Open
                && waiting.path == self.subject.path.as_str()
                && (waiting.base, waiting.new) == (base_digest, new_digest)
            {
                return self.count(work, &waiting.id);
            }
        }
        check_quota(work, skill_id)?;
        work.add_blobs(self.base.iter().map(|base| (base.digest, base.text.as_bytes())))?;
        work.add_blobs([(new_digest, self.new.as_bytes())])?;
        let ChangeExamination { diff, added, removed, flags, lint, tokens } = self.examined;
        let justification = self.request.justification.clone();
        let mut stored = StoredProposal {
            proposal: Proposal {
                summary: ProposalSummary {
                    id: work.new_id()?,
                    seq: 0,
                    skill_id: skill_id.to_owned(),
                    path: self.subject.path.to_string(),
                    state: ProposalState::Open,
                    created_ms: work.now_ms(),
                    author: self.author.clone(),
                    justification_line: first_line(&justification),
                    base_digest,
                    new_digest,
                    added,
                    removed,
                    count: 1,
                    flags,
                    recommendation: None,
                },
                justification,
                evidence: self.request.evidence.clone(),
                diff,
                base_text: self.base.as_ref().map(|base| base.text.clone()),
                new_text: Some(self.new),
                fuzz: self.fuzz,
                lint,
                tokens,
                decided: None,
                version: None,
                file: work.new_file_name(skill_id)?,
                file_state: ProposalFileState::AsWritten,
            },
            file_digest: new_digest,
            file_before: None,
        };
        let event = LedgerEvent::ProposalCreated(to_proposal_event(
            &stored.proposal,
            &self.author.agent_id,
        ));
        let changed = work.append_audit(&NewAuditEntry {
            action: "proposal.created",
            by: &self.author.agent_id,
            via: "agent",
            skill_id: Some(skill_id),
            proposal: Some(&stored.proposal.summary.id),
            event: Some(&event),
            detail: json!({
                "path": self.subject.path.as_str(), "base": base_digest, "new": new_digest,
                "author": self.author,
            }),
            ..NewAuditEntry::default()
        })?;
        work.add(&mut stored, changed)?;
        Ok(proposed(work, stored, false, event))
    }

    /// Counts a proposal that was made before.
    fn count(self, work: &LedgerWork<'_, '_>, id: &str) -> Result<ProposeOutcome, LedgerError> {
        let mut stored = work.find(id)?;
        stored.proposal.summary.count += 1;
        let event = LedgerEvent::ProposalCreated(to_proposal_event(
            &stored.proposal,
            &self.author.agent_id,
        ));
        let changed = work.append_audit(&NewAuditEntry {
            action: "proposal.repeated",
            by: &self.author.agent_id,
            via: "agent",
            skill_id: Some(&self.subject.skill_id),
            proposal: Some(id),
            detail: json!({
                "count": stored.proposal.summary.count, "author": self.author,
                "justification": self.request.justification, "evidence": self.request.evidence,
            }),
            ..NewAuditEntry::default()
        })?;
        work.save(&mut stored, changed)?;
        Ok(proposed(work, stored, true, event))
    }
}

fn check_quota(work: &LedgerWork<'_, '_>, skill_id: &str) -> Result<(), LedgerError> {
    let (of_skill, in_all) = work.count_undecided(skill_id)?;
    let full = if of_skill >= MAX_OPEN_PER_SKILL {
        format!("{of_skill} proposals for `{skill_id}` wait for a decision")
    } else if in_all >= MAX_OPEN_TOTAL {
        format!("{in_all} proposals wait for a decision")
    } else {
        return Ok(());
    };
    Err(LedgerError::new(
        LedgerErrorKind::Quota,
        full,
        "tell the operator to review them (`skill review`); propose again afterwards",
    ))
}

fn proposed(
    work: &LedgerWork<'_, '_>,
    stored: StoredProposal,
    merged: bool,
    event: LedgerEvent,
) -> ProposeOutcome {
    let proposal = work.complete(stored);
    let Proposal { summary, file, fuzz, lint, .. } = proposal;
    ProposeOutcome { proposal: summary, merged, file, event, fuzz, lint }
}

/// Returns the first line of a text, for lists.
pub(super) fn first_line(text: &str) -> String {
    text.trim().lines().next().unwrap_or_default().to_owned()
}

/// Makes what others are told of a proposal.
pub(super) fn to_proposal_event(proposal: &Proposal, by: &str) -> ProposalEvent {
    let summary = &proposal.summary;
    ProposalEvent {
        proposal: summary.id.clone(),
        skill_id: summary.skill_id.clone(),
        path: summary.path.clone(),
        new_digest: summary.new_digest,
        by: by.to_owned(),
        version: proposal.version,
    }
}
