//! Decisions that a person makes through somebody else's client.

use serde::Serialize;
use skill_format::{Digest, sanitize_line};

use crate::snapshot::Snapshot;

use super::{
    HumanActor, Ledger, LedgerError, LedgerErrorKind, LedgerEvent, LedgerOutcome, ProposalState,
};

/// The longest proposal, in bytes, that is shown to a person through a client.
const SHOWN: usize = 16 * 1024;

/// What a model is told of a proposal that a person did not want.
const REJECTED_TEXT: &str = "A person turned it down; the skill stays as it is.";

/// A proposal as a person is to see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProposalOffer {
    /// Its id.
    pub proposal: String,
    /// The digest of what it proposes.
    pub digest: Digest,
    /// All of it: what changes, and why.
    pub text: String,
}

/// What a person answered to an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferDecision<'a> {
    /// The client it came through, as the kernel calls it.
    pub client: &'a str,
    /// The proposal.
    pub proposal: &'a str,
    /// The digest of what the person saw, hexadecimal.
    pub digest: &'a str,
    /// Whether it is to be applied.
    pub approve: bool,
    /// Why; may be empty for what is approved.
    pub reason: &'a str,
}

impl Ledger {
    /// Returns an open proposal as a person is to see it; nothing if that is too long to be shown
    /// whole, because nobody can agree to what they have not seen.
    ///
    /// # Errors
    /// For a proposal that is not there, and if the ledger cannot be read.
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
        let whole = offer.text.len() <= SHOWN && !found.diff.is_empty();
        Ok((whole && summary.state == ProposalState::Open).then_some(offer))
    }

    /// Does what a person answered. Returns what to tell whoever asked, and what happened.
    ///
    /// # Errors
    /// Those of [`Ledger::approve`] and [`Ledger::reject`]; [`LedgerErrorKind::Argument`] for a digest
    /// that is none.
    pub fn apply_decision(
        &self,
        snapshot: &Snapshot,
        verdict: &OfferDecision<'_>,
    ) -> (Result<String, LedgerError>, LedgerOutcome) {
        let done = self.execute_decision(snapshot, verdict);
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
        verdict: &OfferDecision<'_>,
    ) -> Result<(String, Vec<LedgerEvent>), LedgerError> {
        let OfferDecision { client, proposal, digest, approve, reason } = *verdict;
        let actor = HumanActor { name: client.to_owned(), via: "mcp" };
        if !approve {
            self.reject(&actor, proposal, reason)?;
            return Ok((REJECTED_TEXT.to_owned(), Vec::new()));
        }
        let digest = digest.parse().map_err(|_| {
            let hint = "send back the digest that was offered";
            LedgerError::new(LedgerErrorKind::Argument, "this is no digest", hint)
        })?;
        let reason = Some(reason).filter(|reason| !reason.is_empty());
        let applied = self.approve(snapshot, &actor, proposal, digest, reason)?;
        let text = format!("A person approved it: it is version {} of the skill.", applied.version);
        Ok((text, applied.events))
    }
}

/// A text of several lines in which what would steer a terminal or hide something is seen.
pub(crate) fn display_safe(text: &str) -> String {
    // What a line cannot have as it is, even if only as a space: a carriage return overwrites.
    let as_it_is = |c: char| {
        let between = format!("a{c}a");
        sanitize_line(&between) == between
    };
    let harmless = |c: char| matches!(c, '\n' | '\t') || as_it_is(c);
    text.chars().map(|c| if harmless(c) { c } else { '\u{fffd}' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_what_a_person_sees_is_hidden() {
        assert_eq!(
            display_safe("+a\tb\n-\u{1b}[2Kc\u{202e}d\r"),
            "+a\tb\n-\u{fffd}[2Kc\u{fffd}d\u{fffd}"
        );
    }
}
