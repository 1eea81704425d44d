//! Decisions that a person makes through an MCP client.

use serde::Serialize;
use skill_catalog::Snapshot;
use skill_format::{Digest, sanitize_line};
use skill_ledger::{
    HumanActor, Ledger, LedgerError, LedgerErrorKind, LedgerEvent, LedgerOutcome, ProposalState,
};

use crate::reviewing::text::display_safe;

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

impl ProposalOffer {
    /// Returns an open proposal in the form for a person, or `None` if it is too long to be
    /// displayed completely: a person can only approve a text that is fully visible.
    ///
    /// # Errors
    /// Those of [`Ledger::proposal`].
    pub fn load(ledger: &Ledger, proposal: &str) -> Result<Option<Self>, LedgerError> {
        let found = ledger.proposal(proposal)?;
        let summary = &found.summary;
        let text = format!(
            "{} proposes to change {} of the skill `{}`.\n\nWhy: {}\n\n{}",
            sanitize_line(&summary.author.agent_id),
            sanitize_line(&summary.path),
            sanitize_line(&summary.skill_id),
            sanitize_line(&found.justification),
            display_safe(&found.diff)
        );
        let offer = Self { proposal: summary.id.clone(), digest: summary.new_digest, text };
        // An empty diff means that its text is lost: no change can be decided.
        let fits = offer.text.len() <= MAX_OFFER && !found.diff.is_empty();
        Ok((fits && summary.state == ProposalState::Open).then_some(offer))
    }
}

impl OfferDecision<'_> {
    /// Executes the decision. Returns the text for the caller, and the events.
    ///
    /// # Errors
    /// Those of [`Ledger::approve`] and [`Ledger::reject`]; [`LedgerErrorKind::Argument`] for a
    /// malformed digest.
    pub fn apply(
        &self,
        ledger: &Ledger,
        snapshot: &Snapshot,
    ) -> (Result<String, LedgerError>, LedgerOutcome) {
        let done = self.execute(ledger, snapshot);
        let notes = ledger.take_notes();
        match done {
            Ok((text, events)) => {
                (Ok(text), LedgerOutcome { events, notes, ..LedgerOutcome::default() })
            }
            Err(error) => (Err(error), LedgerOutcome { notes, ..LedgerOutcome::default() }),
        }
    }

    fn execute(
        &self,
        ledger: &Ledger,
        snapshot: &Snapshot,
    ) -> Result<(String, Vec<LedgerEvent>), LedgerError> {
        let OfferDecision { client, proposal, digest, approve, reason } = *self;
        let actor = HumanActor { name: client.to_owned(), via: "mcp" };
        if !approve {
            ledger.reject(&actor, proposal, reason)?;
            return Ok((REJECTED_TEXT.to_owned(), Vec::new()));
        }
        let digest = digest.parse().map_err(|_| {
            let hint = "send the digest of the offer";
            LedgerError::new(LedgerErrorKind::Argument, "the digest is not valid", hint)
        })?;
        let reason = Some(reason).filter(|reason| !reason.is_empty());
        let applied = ledger.approve(snapshot, &actor, proposal, digest, reason)?;
        let text = format!("A person approved it: it is version {} of the skill.", applied.version);
        Ok((text, applied.events))
    }
}
