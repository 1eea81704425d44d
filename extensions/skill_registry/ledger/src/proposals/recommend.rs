//! Recommendations of a reviewing agent, and approvals that follow from them.

use serde_json::json;
use skill_catalog::{Snapshot, TrustLevel};
use skill_format::{Digest, Severity};
use skillhost_payload::OperatorCommand;

use crate::ledger::Ledger;
use crate::proposals::stored::{log_action, require_state};
use crate::records::error::{LedgerError, LedgerErrorKind};
use crate::records::event::LedgerEvent;
use crate::records::proposal::{ApplyOutcome, HumanActor, ProposalState, Recommendation};
use crate::sqlite::StoredProposal;

impl Ledger {
    /// Attaches an agent's advice to an open proposal; `digest` is that of the reviewed text.
    ///
    /// # Errors
    /// [`LedgerErrorKind::State`] if the proposal is not open, [`LedgerErrorKind::Digest`] if it has
    /// another text by now, [`LedgerErrorKind::Denied`] where the agent made it; those of the disk
    /// and the database.
    pub fn recommend(
        &self,
        id: &str,
        digest: Digest,
        recommendation: &Recommendation,
    ) -> Result<LedgerEvent, LedgerError> {
        let agent = &recommendation.agent_id;
        self.with_session(|session| {
            session.change(|work| {
                let stored = work.find(id)?;
                require_state(&stored, &[ProposalState::Open], "reviewed")?;
                check_reviewer(&stored, digest, agent)?;
                let event = LedgerEvent::ProposalRecommended(stored.proposal.to_event(agent));
                let actor = HumanActor { name: agent.clone(), via: "agent".to_owned() };
                let detail = json!({"new": digest, "recommendation": recommendation});
                let action = "proposal.recommended";
                let changed = log_action(work, &stored, &actor, action, Some(&event), detail)?;
                let recommendation =
                    Recommendation { at_ms: work.now_ms(), ..recommendation.clone() };
                work.put_recommendation(
                    &stored.proposal.summary.id,
                    digest,
                    &recommendation,
                    changed,
                )?;
                Ok(event)
            })
        })
    }

    /// Applies a proposal that an agent approves, with the same checks as for a person.
    ///
    /// # Errors
    /// Those of [`Ledger::approve`]; [`LedgerErrorKind::Denied`] for proposals that require a
    /// person: the agent's own ones, those for skills that do not exist, that lie in an untrusted
    /// root or that agents created, and those with warnings.
    pub fn approve_for_agent(
        &self,
        snapshot: &Snapshot,
        id: &str,
        digest: Digest,
        recommendation: &Recommendation,
    ) -> Result<ApplyOutcome, LedgerError> {
        let agent = &recommendation.agent_id;
        let (why, reviewed) = self.with_session(|session| {
            session.read(|work| {
                let stored = work.find(id)?;
                check_reviewer(&stored, digest, agent)?;
                let summary = &stored.proposal.summary;
                let skill = snapshot.get(&summary.skill_id);
                // Agents must not approve each other's skills step by step.
                let is_created = work.created(&summary.skill_id)?.is_some();
                let is_wrong = |finding: &crate::records::proposal::LintFinding| {
                    finding.severity == Severity::Error
                };
                let why = match skill.map(|skill| skill.trust()) {
                    None => Some("the skill does not exist yet"),
                    Some(TrustLevel::Untrusted) => Some("its root is untrusted"),
                    Some(TrustLevel::Operator) if is_created => Some("an agent created the skill"),
                    _ if !summary.flags.is_empty() => Some("it has warnings"),
                    _ if stored.proposal.lint.new.iter().any(is_wrong) => Some("rules find errors"),
                    _ => None,
                };
                Ok((why, summary.review_digest()))
            })
        })?;
        if let Some(why) = why {
            return Err(LedgerError::new(
                LedgerErrorKind::Denied,
                format!("only a person approves proposal {id}: {why}"),
                format!("run `{}`", OperatorCommand::ReviewProposals { id: Some(id) }),
            ));
        }
        let actor = HumanActor { name: agent.clone(), via: "agent".to_owned() };
        self.approve(snapshot, &actor, id, reviewed, Some(&recommendation.reason))
    }
}

/// Checks that the agent did not make the proposal and that it reviewed the current text.
fn check_reviewer(stored: &StoredProposal, digest: Digest, agent: &str) -> Result<(), LedgerError> {
    let summary = &stored.proposal.summary;
    if summary.author.agent_id == agent {
        return Err(LedgerError::new(
            LedgerErrorKind::Denied,
            format!("`{agent}` made proposal {} itself", summary.id),
            "a person has to decide about it",
        ));
    }
    if summary.new_digest != digest {
        return Err(LedgerError::new(
            LedgerErrorKind::Digest,
            format!("proposal {} has a different text from the reviewed one", summary.id),
            "review it again",
        ));
    }
    Ok(())
}
