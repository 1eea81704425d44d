//! Decisions that a person makes through an MCP client.

use skill_catalog::Snapshot;
use skill_format::sanitize_line;
use skill_ledger::{
    AcceptanceEvidence, HumanActor, Ledger, LedgerError, LedgerErrorKind, LedgerEvent,
    LedgerOutcome, ProposalState,
};
use skillhost_payload::{CallOrigin, ReviewDecision, ReviewOffer};

use crate::reviewing::text::display_safe;

/// The longest proposal, in bytes, that is offered to a person through a client.
const MAX_OFFER: usize = 16 * 1024;

/// The ways of decisions that are no channels.
const OWN_WAYS: [&str; 7] = ["agent", "cli", "console", "disk", "mcp", "review", "socket"];

/// The length limit of the name of a person, in characters.
const MAX_NAME_CHARS: usize = 64;

/// The tool result for a proposal that a person rejected.
const REJECTED_TEXT: &str = "A person rejected it; the skill stays as it is.";

/// Returns an open proposal in the form for a person, or `None` if it is too long to be
/// displayed completely: a person can only approve a text that is fully visible.
///
/// # Errors
/// Those of [`Ledger::proposal`].
pub fn load_offer(ledger: &Ledger, proposal: &str) -> Result<Option<ReviewOffer>, LedgerError> {
    let found = ledger.proposal(proposal)?;
    let summary = &found.summary;
    let mut checked = summary.acceptance.as_ref().map(render_acceptance).unwrap_or_default();
    if let Some(evidence) = &summary.model_evidence {
        checked.push_str(&format!("With a model: {}\n\n", sanitize_line(&evidence.describe())));
    }
    let text = format!(
        "{} proposes to change {} of the skill `{}`.\n\nWhy: {}\n\n{checked}{}",
        sanitize_line(&summary.author.agent_id),
        sanitize_line(&summary.path),
        sanitize_line(&summary.skill_id),
        sanitize_line(&found.justification),
        display_safe(&found.diff)
    );
    let (proposal, digest) = (summary.id.clone(), summary.review_digest().to_string());
    let offer = ReviewOffer { proposal, digest, text };
    // An empty diff means that its text is lost: no change can be decided.
    let fits = offer.text.len() <= MAX_OFFER && !found.diff.is_empty();
    Ok((fits && summary.state == ProposalState::Open).then_some(offer))
}

/// Renders the result of the check of a proposal, with an empty line at its end.
fn render_acceptance(found: &AcceptanceEvidence) -> String {
    let mut text = format!("Check: {}\n", found.describe());
    for line in found.regressions.iter().chain(&found.leaks) {
        text.push_str(&format!("- {}\n", sanitize_line(line)));
    }
    text.push('\n');
    text
}

/// Executes the decision of a person about an offer. Returns the text for the caller, and the events.
///
/// # Errors
/// Those of [`Ledger::approve`] and [`Ledger::reject`]; [`LedgerErrorKind::Argument`] for a
/// malformed digest.
pub fn apply_decision(
    ledger: &Ledger,
    snapshot: &Snapshot,
    decision: &ReviewDecision,
) -> (Result<String, LedgerError>, LedgerOutcome) {
    let done = execute(ledger, snapshot, decision);
    let notes = ledger.take_notes();
    match done {
        Ok((text, events)) => {
            (Ok(text), LedgerOutcome { events, notes, ..LedgerOutcome::default() })
        }
        Err(error) => (Err(error), LedgerOutcome { notes, ..LedgerOutcome::default() }),
    }
}

fn operator_via(way: &str) -> HumanActor {
    HumanActor { name: "operator".to_owned(), via: way.to_owned() }
}

fn execute(
    ledger: &Ledger,
    snapshot: &Snapshot,
    decision: &ReviewDecision,
) -> Result<(String, Vec<LedgerEvent>), LedgerError> {
    let ReviewDecision { context, proposal, digest, approve, reason, surface, by } = decision;
    let actor = match context.origin {
        CallOrigin::Operator => match (by, surface.as_deref()) {
            // A channel may have the name of a way that permits more.
            (Some(by), Some(channel)) if !OWN_WAYS.contains(&channel) => HumanActor {
                name: sanitize_line(by).chars().take(MAX_NAME_CHARS).collect(),
                via: channel.to_owned(),
            },
            (_, Some("console")) => operator_via("console"),
            _ => operator_via("socket"),
        },
        // The kernel sets the name of the client, so a client cannot decide under another one.
        CallOrigin::Mcp => HumanActor { name: context.agent_id.clone(), via: "mcp".to_owned() },
        CallOrigin::Agent => {
            let hint = "a person decides about it";
            return Err(LedgerError::new(
                LedgerErrorKind::Argument,
                "an agent cannot decide about a proposal",
                hint,
            ));
        }
    };
    if !approve {
        ledger.reject(&actor, proposal, reason)?;
        return Ok((REJECTED_TEXT.to_owned(), Vec::new()));
    }
    let digest = digest.parse().map_err(|_| {
        let hint = "send the digest of the offer";
        LedgerError::new(LedgerErrorKind::Argument, "the digest is not valid", hint)
    })?;
    let reason = Some(reason.as_str()).filter(|reason| !reason.is_empty());
    let applied = ledger.approve(snapshot, &actor, proposal, digest, reason)?;
    let text = format!("A person approved it: it is version {} of the skill.", applied.version);
    Ok((text, applied.events))
}
