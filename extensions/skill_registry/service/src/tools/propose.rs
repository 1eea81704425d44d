//! `propose_skill_update`: records a proposal for an agent.

use serde_json::json;
use skill_catalog::{AgentAuthor, Audience, RegistryError, Snapshot};
use skill_format::sanitize_line;
use skill_ledger::{
    Ledger, LedgerErrorKind, LedgerOutcome, ProposeOutcome, ProposeRequest, unknown_skill_for,
};

use super::{ToolAnswer, find_visible};
use crate::reviewing::ReviewPolicy;

/// Records an agent's proposal. Returns the result for the agent, which depends on the policy, and
/// what is to be published: the event, unless the same proposal was already open, and the notes.
///
/// # Errors
/// The result has those of [`Ledger::propose`], and those of reading the skill, if the audience may
/// not read it. The notes are there in any case.
pub fn propose_skill_update(
    ledger: &Ledger,
    snapshot: &Snapshot,
    audience: Audience<'_>,
    author: &AgentAuthor,
    request: &ProposeRequest,
    policy: ReviewPolicy,
) -> (Result<ToolAnswer, RegistryError>, LedgerOutcome) {
    let made = record_proposal(ledger, snapshot, audience, author, request);
    let mut outcome = LedgerOutcome { notes: ledger.take_notes(), ..LedgerOutcome::default() };
    let answer = made.map(|made| {
        let answer = to_tool_answer(&made, policy);
        // The event of an open proposal was published when it was made.
        outcome.events.extend((!made.merged).then_some(made.event));
        answer
    });
    (answer, outcome)
}

fn record_proposal(
    ledger: &Ledger,
    snapshot: &Snapshot,
    audience: Audience<'_>,
    author: &AgentAuthor,
    request: &ProposeRequest,
) -> Result<ProposeOutcome, RegistryError> {
    let id = &*request.skill_id;
    let exists = snapshot.get(id).is_some();
    if exists {
        find_visible(snapshot, id, audience)?;
    }
    let made = ledger.propose(snapshot, author, request).map_err(|error| match error.reason() {
        // The ledger's own hints name skills that only operators see.
        LedgerErrorKind::NotFound if !exists => unknown_skill_for(audience, snapshot, id),
        _ => error,
    })?;
    Ok(made)
}

/// Returns the next step for the author of a proposal.
fn next_step(policy: ReviewPolicy) -> &'static str {
    match policy {
        ReviewPolicy::Human | ReviewPolicy::AgentRecommends => {
            "Nothing is changed: a person decides. Continue with the skill as it is."
        }
        ReviewPolicy::AgentApproves => {
            "Nothing is changed yet: a reviewing agent or a person decides. Go on with the skill as \
             it is."
        }
    }
}

fn to_tool_answer(made: &ProposeOutcome, policy: ReviewPolicy) -> ToolAnswer {
    let next = next_step(policy);
    let proposal = &made.proposal;
    let (number, id) = (proposal.seq, &proposal.id);
    let mut text = if made.merged {
        format!(
            "The same proposal was made before: number {number} ({id}), now {} times.",
            proposal.count
        )
    } else {
        format!(
            "Proposal {number} ({id}) is recorded: {} of `{}`, {} lines added, {} removed.",
            sanitize_line(&proposal.path),
            proposal.skill_id,
            proposal.added,
            proposal.removed
        )
    };
    text.push(' ');
    text.push_str(next);
    for note in &made.fuzz {
        text.push_str(&format!("\nNote: {note}."));
    }
    for (what, findings) in [("adds", &made.lint.new), ("resolves", &made.lint.gone)] {
        for finding in findings {
            let message = sanitize_line(&finding.message);
            text.push_str(&format!("\nIt {what} {}: {message}.", finding.rule));
        }
    }
    let structured = json!({
        "proposal": id,
        "number": number,
        "state": proposal.state,
        "merged": made.merged,
        "count": proposal.count,
        "skill_id": proposal.skill_id,
        "path": proposal.path,
        "base_digest": proposal.base_digest,
        "new_digest": proposal.new_digest,
        "added": proposal.added,
        "removed": proposal.removed,
        "flags": proposal.flags,
        "fuzz": made.fuzz,
        "lint": made.lint,
        "next": next,
    });
    ToolAnswer { text, structured, read: None }
}
