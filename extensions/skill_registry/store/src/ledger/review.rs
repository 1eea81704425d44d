//! Decisions that a person makes through an MCP client.

use serde::Serialize;
use skill_format::{Digest, sanitize_line};

use crate::snapshot::Snapshot;

use super::{
    HumanActor, Ledger, LedgerError, LedgerErrorKind, LedgerEvent, LedgerOutcome, ProposalState,
};

/// The longest proposal, in bytes, that is offered to a person through a client.
const MAX_OFFER: usize = 16 * 1024;

/// The tool result for a proposal that a person rejected.
const REJECTED_TEXT: &str = "A person rejected it; the skill stays as it is.";

/// A proposal in the form for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProposalOffer {
    /// Its id.
    pub proposal: String,
    /// The digest of the proposed text.
    pub digest: Digest,
    /// The complete proposal: the change and its reasons.
    pub text: String,
}

/// The decision of a person about an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferDecision<'a> {
    /// The client that sent it, under its name in the kernel.
    pub client: &'a str,
    /// The proposal.
    pub proposal: &'a str,
    /// The digest of the text that the person saw, in hexadecimal.
    pub digest: &'a str,
    /// `true` if the proposal is to be applied.
    pub approve: bool,
    /// The reason; may be empty for an approval.
    pub reason: &'a str,
}

impl Ledger {
    /// Returns an open proposal in the form for a person, or `None` if it is too long to be
    /// displayed completely: a person can only approve a text that is fully visible.
    ///
    /// # Errors
    /// Those of [`Ledger::proposal`].
    pub fn review_offer(&self, proposal: &str) -> Result<Option<ProposalOffer>, LedgerError> {
        let found = self.proposal(proposal)?;
        let summary = &found.summary;
        let text = format!(
            "{} proposes to change {} of the skill `{}`.\n\nWhy: {}\n\n{}",
            sanitize_line(&summary.author.agent_id),
            sanitize_line(&summary.path),
            sanitize_line(&summary.skill_id),
            sanitize_line(&found.justification),
            display_safe(&found.diff)
        );
        let offer =
            ProposalOffer { proposal: summary.id.clone(), digest: summary.new_digest, text };
        // An empty diff means that its text is lost: no change can be decided.
        let fits = offer.text.len() <= MAX_OFFER && !found.diff.is_empty();
        Ok((fits && summary.state == ProposalState::Open).then_some(offer))
    }

    /// Executes the decision of a person. Returns the text for the caller, and the events.
    ///
    /// # Errors
    /// Those of [`Ledger::approve`] and [`Ledger::reject`]; [`LedgerErrorKind::Argument`] for a
    /// malformed digest.
    pub fn apply_decision(
        &self,
        snapshot: &Snapshot,
        decision: &OfferDecision<'_>,
    ) -> (Result<String, LedgerError>, LedgerOutcome) {
        let done = self.execute_decision(snapshot, decision);
        let notes = self.take_notes();
        match done {
            Ok((text, events)) => {
                (Ok(text), LedgerOutcome { events, notes, ..LedgerOutcome::default() })
            }
            Err(error) => (Err(error), LedgerOutcome { notes, ..LedgerOutcome::default() }),
        }
    }

    fn execute_decision(
        &self,
        snapshot: &Snapshot,
        decision: &OfferDecision<'_>,
    ) -> Result<(String, Vec<LedgerEvent>), LedgerError> {
        let OfferDecision { client, proposal, digest, approve, reason } = *decision;
        let actor = HumanActor { name: client.to_owned(), via: "mcp" };
        if !approve {
            self.reject(&actor, proposal, reason)?;
            return Ok((REJECTED_TEXT.to_owned(), Vec::new()));
        }
        let digest = digest.parse().map_err(|_| {
            let hint = "send the digest of the offer";
            LedgerError::new(LedgerErrorKind::Argument, "the digest is not valid", hint)
        })?;
        let reason = Some(reason).filter(|reason| !reason.is_empty());
        let applied = self.approve(snapshot, &actor, proposal, digest, reason)?;
        let text = format!("A person approved it: it is version {} of the skill.", applied.version);
        Ok((text, applied.events))
    }
}

/// Replaces the characters of a multi-line text that would steer a terminal or hide other text.
pub(crate) fn display_safe(text: &str) -> String {
    // The same characters as in a line. Between two letters, because the ends are trimmed; a
    // carriage return becomes a space there, which counts as unsafe because it overwrites.
    let is_unchanged = |c: char| {
        let between = format!("a{c}a");
        sanitize_line(&between) == between
    };
    let is_safe = |c: char| matches!(c, '\n' | '\t') || is_unchanged(c);
    text.chars().map(|c| if is_safe(c) { c } else { '\u{fffd}' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_safe_replaces_hidden_characters() {
        assert_eq!(
            display_safe("+a\tb\n-\u{1b}[2Kc\u{202e}d\r"),
            "+a\tb\n-\u{fffd}[2Kc\u{fffd}d\u{fffd}"
        );
    }
}
