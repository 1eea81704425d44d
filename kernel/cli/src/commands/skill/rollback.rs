//! `skillhost skill rollback`.

use skill_store::SkillVersion;

use super::compare;
use super::consent::Consent;
use super::desk::{Desk, actor};
use crate::cli::RollbackArgs;
use crate::error::CliError;
use crate::exit;
use crate::output::{Outcome, show};
use crate::session::Session;

pub(super) fn rollback(session: &Session, args: &RollbackArgs) -> Outcome {
    let desk = Desk::open(session)?;
    let id = &args.skill;
    let versions = desk.ask(|ledger, skills| ledger.history(skills, id))?;
    let number = args.version.map_or_else(|| before_last(id, &versions), Ok)?;
    let target = desk.ask(|ledger, _| ledger.version(id, Some(number)))?;
    let consent = Consent {
        yes: args.yes,
        digest: args.digest.as_deref(),
        command: format!("skillhost skill rollback {id} {number}"),
        look: format!("skillhost skill history {id}"),
    };
    let digest = target.version.tree;
    let question =
        format!("Make `{id}` what it was in version {number} (digest {})?", digest.short());
    consent.obtain(session, digest, &question, || {
        let now = desk.ask(|ledger, _| ledger.version(id, None))?;
        compare::print(session, &compare::compare(&now, &target))
    })?;
    let applied = desk.ask(|ledger, skills| {
        ledger.rollback(skills, &actor("cli"), id, Some(number), args.reason.as_deref())
    })?;
    if session.output.json {
        session.output.object(&applied)?;
    } else {
        session.output.line(format!(
            "`{}` is as in version {number}; that is version {}",
            show(id),
            applied.version
        ))?;
    }
    Ok(exit::OK)
}

fn before_last(id: &str, versions: &[SkillVersion]) -> Result<u64, CliError> {
    match versions {
        [.., before, _] => Ok(before.number),
        _ => Err(CliError::new(exit::CONFLICT, format!("`{id}` has only one version"))
            .hint("there is nothing to go back to")),
    }
}
