//! `skillhost skill proposal reject`.

use skillhost_terminal::{CliContext, CommandResult, display_safe, exit};

use super::review_context::{ReviewContext, current_actor};
use crate::arguments::RejectArgs;

pub(super) fn cmd_skill_reject(session: &CliContext, args: &RejectArgs) -> CommandResult {
    let context = ReviewContext::open(session)?;
    let proposal = context
        .with_ledger(|ledger, _| ledger.reject(&current_actor("cli"), &args.id, &args.reason))?;
    if session.output.json {
        session.output.print_json(&proposal)?;
    } else {
        let summary = &proposal.summary;
        session.output.print_line(format!(
            "rejected {}: {} of `{}` stays as it is",
            summary.id,
            display_safe(&summary.path),
            display_safe(&summary.skill_id)
        ))?;
    }
    Ok(exit::OK)
}
