//! `skillhost skill rebase`.

use skill_store::ProposalState;

use super::desk::{Desk, actor};
use crate::cli::RebaseArgs;
use crate::exit;
use crate::output::{GREEN, Outcome, RED, show};
use crate::session::Session;

pub(super) fn rebase(session: &Session, args: &RebaseArgs) -> Outcome {
    let desk = Desk::open(session)?;
    let rebased = desk.ask(|ledger, skills| ledger.rebase(skills, &actor("cli"), &args.id))?;
    let code = if rebased.conflicts.is_empty() { exit::OK } else { exit::CONFLICT };
    let output = session.output;
    if output.json {
        output.object(&rebased)?;
        return Ok(code);
    }
    let summary = &rebased.proposal.summary;
    for conflict in &rebased.conflicts {
        output.line(format!("{}:{}", show(&summary.path), conflict.line))?;
        for (style, mark, text) in [(RED, "now", &conflict.ours), (GREEN, "new", &conflict.theirs)]
        {
            for line in text.lines() {
                output.line(format!("  {style}{mark} | {}{style:#}", show(line)))?;
            }
        }
    }
    match (summary.state, rebased.conflicts.len()) {
        (ProposalState::Superseded, 0) => output.line(format!(
            "{}: the file says this already; there is nothing left to decide",
            summary.id
        ))?,
        (_, 0) => output.line(format!(
            "{} fits the file as it is now; its digest is {}",
            summary.id,
            summary.new_digest.short()
        ))?,
        (_, count) => {
            let places = if count == 1 { "place" } else { "places" };
            output.note(format!("changed on both sides, in {count} {places}; nothing was done"));
            output.note("edit the file so that they agree, or reject the proposal");
        }
    }
    Ok(code)
}
