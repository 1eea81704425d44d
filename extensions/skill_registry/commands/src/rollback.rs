//! `skillhost skill rollback`.

use skill_ledger::SkillVersion;
use skillhost_terminal::{CliContext, CliError, CommandResult, display_safe, exit};

use super::compare;
use super::consent::{ApprovalFlags, short_digest};
use super::difference::compare_versions;
use super::review_context::{ReviewContext, current_actor};
use crate::arguments::RollbackArgs;

pub(super) fn cmd_skill_rollback(session: &CliContext, args: &RollbackArgs) -> CommandResult {
    let context = ReviewContext::open(session)?;
    let id = &args.skill;
    let versions = context.with_ledger(|ledger, skills| ledger.history(skills, id))?;
    let number = args.version.map_or_else(|| before_last(id, &versions), Ok)?;
    let target = context.with_ledger(|ledger, _| ledger.version(id, Some(number)))?;
    let consent = ApprovalFlags {
        yes: args.yes,
        digest: args.digest.as_deref(),
        command: format!("skillhost skill rollback {id} {number}"),
        look: format!("skillhost skill history {id}"),
    };
    let digest = target.version.tree;
    let question =
        format!("Make `{id}` what it was in version {number} (digest {})?", short_digest(digest));
    consent.require(session, digest, &question, || {
        let now = context.with_ledger(|ledger, _| ledger.version(id, None))?;
        compare::print(session, &compare_versions(&now, &target))
    })?;
    let applied = context.with_ledger(|ledger, skills| {
        ledger.rollback(skills, &current_actor("cli"), id, Some(number), args.reason.as_deref())
    })?;
    if session.output.json {
        session.output.print_json(&applied)?;
    } else {
        session.output.print_line(format!(
            "`{}` is as in version {number}; that is version {}",
            display_safe(id),
            applied.version
        ))?;
    }
    Ok(exit::OK)
}

fn before_last(id: &str, versions: &[SkillVersion]) -> Result<u64, CliError> {
    match versions {
        [.., before, _] => Ok(before.number),
        _ => Err(CliError::new(exit::CONFLICT, format!("`{id}` has only one version"))
            .with_hint("no earlier version exists")),
    }
}
