//! `propose_skill_update`: records an agent's proposal without changing the skill.

use serde_json::json;
use skill_catalog::{Advice, AgentAuthor, NextStep, Snapshot};
use skill_diff::{self, DiffError, FuzzNote};
use skill_format::{Digest, FILE_LIMIT};

use crate::examine::{ChangeExamination, DigestedText, examine_change};
use crate::files::skill_directory::{ProposalTarget, unknown_skill};
use crate::ledger::Ledger;
use crate::proposals::check::{MAX_REJECTED, require_change, require_new_edit};
use crate::records::acceptance::{AcceptanceEvidence, ProposedChange};
use crate::records::error::{LedgerError, LedgerErrorKind};
use crate::records::event::LedgerEvent;
use crate::records::limits::{MAX_OPEN_PER_SKILL, MAX_OPEN_TOTAL, check_reason};
use crate::records::proposal::{
    ChangeTrial, Proposal, ProposalFileState, ProposalState, ProposalSummary, ProposeOutcome,
    ProposeRequest, first_line,
};
use crate::session::LedgerWork;
use crate::sqlite::{NewAuditEntry, StoredProposal};

/// The maximum number of pieces of evidence of a proposal, and the maximum bytes of each.
const MAX_EVIDENCE: usize = 20;
const MAX_PIECE: usize = 4 << 10;

/// The origin of the proposals that a person makes.
const OPERATOR: &str = "operator";

/// The byte order mark that some editors put at the start of a text.
const BOM: char = '\u{feff}';

impl Ledger {
    /// Records an agent's proposal to change a file of a skill, or to add a skill; the skill itself
    /// is not changed.
    ///
    /// An identical proposal that is already open is counted instead.
    ///
    /// # Errors
    /// [`LedgerErrorKind::NotFound`] for an unknown skill, [`LedgerErrorKind::Argument`] and
    /// [`LedgerErrorKind::TooLarge`] for a request that cannot be one, [`LedgerErrorKind::Denied`]
    /// for a file that cannot be changed this way, [`LedgerErrorKind::DoesNotApply`] for a diff that
    /// does not fit the file, [`LedgerErrorKind::Refused`] for a change of an agent that the check of
    /// changes or an earlier rejection rules out, [`LedgerErrorKind::Conflict`] if the file changes
    /// during the check, [`LedgerErrorKind::Invalid`] for a SKILL.md that would not load or
    /// gets new validation errors, [`LedgerErrorKind::Quota`] where too many proposals wait; those
    /// of the disk and the database.
    pub fn propose(
        &self,
        snapshot: &Snapshot,
        author: &AgentAuthor,
        request: &ProposeRequest,
    ) -> Result<ProposeOutcome, LedgerError> {
        let words = collect_words(request);
        // A person decides in any case, and sees the result.
        let is_person = author.origin == OPERATOR;
        let (_, acceptance) = self.check_text(snapshot, request, &words, is_person)?;
        if !is_person {
            acceptance.iter().try_for_each(|found| self.require_accepted(found))?;
        }
        self.with_session(|session| {
            session.restore_texts(snapshot)?;
            let CheckedText { target, base, new, fuzz, examined } =
                CheckedText::make(snapshot, request, &words)?;
            let base_digest = base.as_ref().map(|base| base.digest);
            if acceptance.as_ref().is_some_and(|found| found.base != base_digest) {
                return Err(LedgerError::new(
                    LedgerErrorKind::Conflict,
                    format!("{} changed while the proposal was checked", target.path),
                    "read the file again, and propose the change once more",
                ));
            }
            let draft = DraftProposal {
                target: &target,
                author,
                request,
                base: &base,
                new,
                fuzz,
                examined,
                acceptance: acceptance.clone(),
            };
            session.change(|work| draft.record(work))
        })
    }

    /// Makes every check that [`Ledger::propose`] makes of a change of an agent, and records no
    /// proposal.
    ///
    /// # Errors
    /// Those of [`Ledger::propose`], except that the objections of the check of changes are a part of
    /// the result.
    pub fn try_change(
        &self,
        snapshot: &Snapshot,
        request: &ProposeRequest,
    ) -> Result<ChangeTrial, LedgerError> {
        let words = collect_words(request);
        let (checked, acceptance) = self.check_text(snapshot, request, &words, false)?;
        let change = checked.change();
        let new_digest = Digest::compute(checked.new.as_bytes());
        self.with_session(|session| {
            session.read(|work| {
                check_quota(work, change.skill_id)?;
                let known = work.rejected_proposals(change.skill_id, change.path, MAX_REJECTED)?;
                require_new_edit(&checked.examined.diff, new_digest, &known)
            })
        })?;
        let objection = acceptance.as_ref().and_then(|found| self.require_accepted(found).err());
        Ok(ChangeTrial { flags: checked.examined.flags, acceptance, objection })
    }

    /// Checks the request and the new text, and compares it with the cases of the home.
    fn check_text(
        &self,
        snapshot: &Snapshot,
        request: &ProposeRequest,
        words: &[&str],
        is_person: bool,
    ) -> Result<(CheckedText, Option<AcceptanceEvidence>), LedgerError> {
        check_request(request)?;
        // Outside of the lock: a check searches every skill of the home.
        let checked = self.with_session(|session| {
            session.restore_texts(snapshot)?;
            CheckedText::make(snapshot, request, words)
        })?;
        if !is_person {
            require_change(&checked.change())?;
        }
        let acceptance = self.examine(snapshot, &checked.change())?;
        Ok((checked, acceptance))
    }
}

/// Returns the texts that accompany a change.
fn collect_words(request: &ProposeRequest) -> Vec<&str> {
    std::iter::once(&request.justification).chain(&request.evidence).map(String::as_str).collect()
}

/// The new text of a file, checked by the rules.
struct CheckedText {
    target: ProposalTarget,
    base: Option<DigestedText>,
    new: String,
    fuzz: Vec<FuzzNote>,
    examined: ChangeExamination,
}

impl CheckedText {
    fn make(
        snapshot: &Snapshot,
        request: &ProposeRequest,
        words: &[&str],
    ) -> Result<Self, LedgerError> {
        let target = ProposalTarget::find(snapshot, &request.skill_id, request.path.as_deref())?;
        let base = target.read()?;
        let made = make_new_text(&target, base.as_ref(), request);
        // An id that does not exist is more often mistyped than new: a new skill has to name itself.
        if !target.exists && !made.as_ref().is_ok_and(|(new, _)| has_matching_name(new, &target)) {
            return Err(unknown_skill(snapshot, &target.skill_id));
        }
        let (new, fuzz) = made?;
        let old = base.as_ref().map(|base| base.text.as_str());
        let examined = examine_change(&target, old, &new, words)?;
        Ok(Self { target, base, new, fuzz, examined })
    }

    fn change(&self) -> ProposedChange<'_> {
        ProposedChange {
            skill_id: &self.target.skill_id,
            path: self.target.path.as_str(),
            base: self.base.as_ref().map(|base| base.text.as_str()),
            new: &self.new,
        }
    }
}

/// Returns `true` if a new SKILL.md has the name of its directory, or none.
fn has_matching_name(text: &str, target: &ProposalTarget) -> bool {
    let parsed = skill_format::parse_head(&target.skill_id, text.as_bytes());
    let name = parsed.frontmatter.and_then(|frontmatter| frontmatter.name);
    name.is_none_or(|name| name == target.skill_id)
}

/// Checks a request as far as that is possible without the skill.
fn check_request(request: &ProposeRequest) -> Result<(), LedgerError> {
    let argument = |message: String, hint: &str| {
        Err(LedgerError::new(LedgerErrorKind::Argument, message, hint))
    };
    let too_large = |message: String, hint: &str| {
        Err(LedgerError::new(LedgerErrorKind::TooLarge, message, hint))
    };
    match (&request.diff, &request.new_content) {
        (None, None) => {
            return argument(
                "the request has neither diff nor new_content".to_owned(),
                "give the change as a unified diff, or the whole new text as new_content",
            );
        }
        (Some(_), Some(_)) => {
            return argument(
                "the request has both diff and new_content".to_owned(),
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
            "give the reason for the change: the decision is based on it",
        );
    }
    check_reason("the justification", &request.justification)?;
    if request.evidence.len() > MAX_EVIDENCE {
        return too_large(
            format!(
                "the request has {} pieces of evidence, at most {MAX_EVIDENCE} are possible",
                request.evidence.len()
            ),
            "keep the strongest ones",
        );
    }
    match request.evidence.iter().map(String::len).max() {
        Some(length) if length > MAX_PIECE => too_large(
            format!("a piece of evidence has {length} bytes, at most {MAX_PIECE} are possible"),
            "keep the relevant part",
        ),
        _ => Ok(()),
    }
}

/// Makes the new text of a file.
fn make_new_text(
    target: &ProposalTarget,
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
    // The mark is invisible to the author, whose diff therefore does not contain it.
    let (mark, before) = match before.strip_prefix(BOM) {
        Some(rest) => (Some(BOM), rest),
        None => (None, before),
    };
    let patched = skill_diff::apply_diff(before, diff, target.path.as_str()).map_err(|error| {
        let kind = match error {
            DiffError::TooLarge { .. } => LedgerErrorKind::TooLarge,
            _ => LedgerErrorKind::DoesNotApply,
        };
        LedgerError::new(
            kind,
            format!("the diff does not apply to {}: {error}", target.path),
            "read the file again and make the diff against its current text, or give new_content",
        )
    })?;
    Ok((mark.into_iter().chain(patched.text.chars()).collect(), patched.fuzz))
}

/// A proposal that is not recorded yet.
struct DraftProposal<'a> {
    target: &'a ProposalTarget,
    author: &'a AgentAuthor,
    request: &'a ProposeRequest,
    base: &'a Option<DigestedText>,
    new: String,
    fuzz: Vec<FuzzNote>,
    examined: ChangeExamination,
    acceptance: Option<AcceptanceEvidence>,
}

impl DraftProposal<'_> {
    fn record(self, work: &LedgerWork<'_, '_>) -> Result<ProposeOutcome, LedgerError> {
        let Self { target, author, .. } = self;
        let skill_id = target.skill_id.as_str();
        let base_digest = self.base.as_ref().map(|base| base.digest);
        let new_digest = Digest::compute(self.new.as_bytes());
        for waiting in work.undecided_proposals(skill_id)? {
            // Models repeat themselves: the same text on the same base is one proposal.
            if waiting.state == ProposalState::Open
                && waiting.path == self.target.path.as_str()
                && (waiting.base, waiting.new) == (base_digest, new_digest)
            {
                return self.record_repetition(work, &waiting.id);
            }
        }
        if author.origin != OPERATOR {
            let path = target.path.as_str();
            let rejected = work.rejected_proposals(skill_id, path, MAX_REJECTED)?;
            require_new_edit(&self.examined.diff, new_digest, &rejected)?;
        }
        // Only now: a repetition adds no proposal.
        check_quota(work, skill_id)?;
        work.add_blobs(self.base.iter().map(|base| (base.digest, base.text.as_bytes())))?;
        work.add_blobs([(new_digest, self.new.as_bytes())])?;
        let mut stored = self.into_stored(work, base_digest, new_digest)?;
        let event = LedgerEvent::ProposalCreated(stored.proposal.to_event(&author.agent_id));
        let changed = work.append_audit(&NewAuditEntry {
            action: "proposal.created",
            by: &author.agent_id,
            via: "agent",
            skill_id: Some(skill_id),
            proposal: Some(&stored.proposal.summary.id),
            event: Some(&event),
            detail: json!({
                "path": target.path.as_str(), "base": base_digest, "new": new_digest,
                "author": author,
            }),
            ..NewAuditEntry::default()
        })?;
        work.add(&mut stored, changed)?;
        work.save_acceptance(&stored, changed)?;
        Ok(to_outcome(work, stored, false, event))
    }

    /// Makes the row of the proposal, with a new id and an unused file name.
    fn into_stored(
        self,
        work: &LedgerWork<'_, '_>,
        base_digest: Option<Digest>,
        new_digest: Digest,
    ) -> Result<StoredProposal, LedgerError> {
        let skill_id = self.target.skill_id.as_str();
        let ChangeExamination { diff, added, removed, flags, lint, tokens } = self.examined;
        let justification = self.request.justification.clone();
        Ok(StoredProposal {
            proposal: Proposal {
                summary: ProposalSummary {
                    id: work.new_id()?,
                    // Filled in when the row is added.
                    seq: 0,
                    skill_id: skill_id.to_owned(),
                    path: self.target.path.to_string(),
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
                    acceptance: self.acceptance,
                    model_evidence: None,
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
            // Replaced by `LedgerWork::add`, which renders the file.
            file_digest: new_digest,
            file_before: None,
        })
    }

    /// Counts one more proposal of the same change.
    fn record_repetition(
        self,
        work: &LedgerWork<'_, '_>,
        id: &str,
    ) -> Result<ProposeOutcome, LedgerError> {
        let mut stored = work.find(id)?;
        stored.proposal.summary.count += 1;
        let event = LedgerEvent::ProposalCreated(stored.proposal.to_event(&self.author.agent_id));
        // The new reasons go into the audit log only: reviewed texts must not change unnoticed.
        let changed = work.append_audit(&NewAuditEntry {
            action: "proposal.repeated",
            by: &self.author.agent_id,
            via: "agent",
            skill_id: Some(&self.target.skill_id),
            proposal: Some(id),
            detail: json!({
                "count": stored.proposal.summary.count, "author": self.author,
                "justification": self.request.justification, "evidence": self.request.evidence,
            }),
            ..NewAuditEntry::default()
        })?;
        work.save(&mut stored, changed)?;
        Ok(to_outcome(work, stored, true, event))
    }
}

fn check_quota(work: &LedgerWork<'_, '_>, skill_id: &str) -> Result<(), LedgerError> {
    let (of_skill, in_all) = work.count_undecided(skill_id)?;
    let full = if of_skill >= MAX_OPEN_PER_SKILL {
        format!(
            "`{skill_id}` has {of_skill} undecided proposals, at most {MAX_OPEN_PER_SKILL} are possible"
        )
    } else if in_all >= MAX_OPEN_TOTAL {
        format!(
            "the ledger has {in_all} undecided proposals, at most {MAX_OPEN_TOTAL} are possible"
        )
    } else {
        return Ok(());
    };
    Err(LedgerError::new(
        LedgerErrorKind::Quota,
        full,
        Advice::from("ask the operator to review them (")
            .with_step(NextStep::ReviewProposals)
            .with_text("), then propose again"),
    ))
}

fn to_outcome(
    work: &LedgerWork<'_, '_>,
    stored: StoredProposal,
    merged: bool,
    event: LedgerEvent,
) -> ProposeOutcome {
    let proposal = work.complete(stored);
    let Proposal { summary, file, fuzz, lint, .. } = proposal;
    ProposeOutcome { proposal: summary, merged, file, event, fuzz, lint }
}
