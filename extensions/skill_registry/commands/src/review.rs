//! `skillhost skill proposal review`: proposals as pages; on a terminal, decided one after the other.

mod editor;
mod review_loop;
mod screen;

use serde::Serialize;
use serde_json::json;
use skill_ledger::{Proposal, ProposalDrift, ProposalFilter, ProposalState};
use skillhost_terminal::{CliContext, CliError, CommandResult, exit};

use super::consent::is_interactive;
use super::page;
use super::proposals::to_json;
use super::review_context::ReviewContext;
use crate::arguments::ReviewArgs;

/// A proposal as `--json` prints it.
#[derive(Debug, Serialize)]
struct ProposalOutput {
    #[serde(flatten)]
    proposal: Proposal,
    base: ProposalDrift,
}

pub(super) fn cmd_skill_review(session: &CliContext, args: &ReviewArgs) -> CommandResult {
    let context = ReviewContext::open(session)?;
    let ids = match &args.id {
        Some(id) => vec![context.proposal(id)?.0.summary.id],
        None => pending_proposal_ids(&context)?,
    };
    if is_interactive(session) && !ids.is_empty() {
        return review_loop::review_interactively(session, &context, &ids);
    }
    if session.output.json {
        let reviewed = ids
            .iter()
            .map(|id| {
                let (proposal, base) = context.proposal(id)?;
                let summary = proposal.summary.clone();
                Ok(to_json(&ProposalOutput { proposal, base }, &summary))
            })
            .collect::<Result<Vec<_>, CliError>>()?;
        session.output.print_json(&json!({ "proposals": reviewed }))?;
        return Ok(exit::OK);
    }
    if ids.is_empty() {
        session.output.print_note("no proposals wait for a decision");
    }
    for (number, id) in ids.iter().enumerate() {
        if number > 0 {
            session.output.print_line(format!("\n{}\n", "═".repeat(80)))?;
        }
        let (proposal, drift) = context.proposal(id)?;
        page::print(
            session.output,
            &page::proposal_page(&proposal, &drift, session.output.width()),
        )?;
    }
    Ok(exit::OK)
}

/// Returns the ids of the proposals that await a decision, the oldest first.
fn pending_proposal_ids(context: &ReviewContext) -> Result<Vec<String>, CliError> {
    let listed = context.proposals(ProposalFilter::default())?;
    let waits =
        |state| matches!(state, ProposalState::Open | ProposalState::Stale | ProposalState::Failed);
    Ok(listed.into_iter().filter(|summary| waits(summary.state)).map(|s| s.id).collect())
}
