//! `skillhost skill proposal rebase`.

use skill_ledger::ProposalState;
use skillhost_terminal::{CliContext, CommandResult, GREEN, RED, display_safe, exit};

use super::review_context::{ReviewContext, current_actor};
use crate::arguments::RebaseArgs;

pub(super) fn cmd_skill_rebase(session: &CliContext, args: &RebaseArgs) -> CommandResult {
    let context = ReviewContext::open(session)?;
    let rebased = context
        .with_ledger(|ledger, skills| ledger.rebase(skills, &current_actor("cli"), &args.id))?;
    let code = if rebased.conflicts.is_empty() { exit::OK } else { exit::CONFLICT };
    let output = session.output;
    if output.json {
        output.print_json(&rebased)?;
        return Ok(code);
    }
    let summary = &rebased.proposal.summary;
    for conflict in &rebased.conflicts {
        output.print_line(format!("{}:{}", display_safe(&summary.path), conflict.line))?;
        for (style, mark, text) in [(RED, "now", &conflict.ours), (GREEN, "new", &conflict.theirs)]
        {
            for line in text.lines() {
                output.print_line(format!("  {style}{mark} | {}{style:#}", display_safe(line)))?;
            }
        }
    }
    match (summary.state, rebased.conflicts.len()) {
        (ProposalState::Superseded, 0) => output.print_line(format!(
            "{}: the file already has this text; there is nothing left to decide",
            summary.id
        ))?,
        (_, 0) => output.print_line(format!(
            "{} fits the file as it is now; its digest is {}",
            summary.id,
            summary.review_digest().short()
        ))?,
        (_, count) => {
            let places = if count == 1 { "place" } else { "places" };
            output.print_note(format!(
                "changed on both sides, in {count} {places}; nothing was done"
            ));
            output.print_note("edit the file so that they agree, or reject the proposal");
        }
    }
    Ok(code)
}
