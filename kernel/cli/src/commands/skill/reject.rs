//! `skillhost skill reject`.

use super::desk::{Desk, actor};
use crate::cli::RejectArgs;
use crate::exit;
use crate::output::{Outcome, show};
use crate::session::Session;

pub(super) fn reject(session: &Session, args: &RejectArgs) -> Outcome {
    let desk = Desk::open(session)?;
    let proposal = desk.ask(|ledger, _| ledger.reject(&actor("cli"), &args.id, &args.reason))?;
    if session.output.json {
        session.output.object(&proposal)?;
    } else {
        let summary = &proposal.summary;
        session.output.line(format!(
            "rejected {}: {} of `{}` stays as it is",
            summary.id,
            show(&summary.path),
            show(&summary.skill_id)
        ))?;
    }
    Ok(exit::OK)
}
