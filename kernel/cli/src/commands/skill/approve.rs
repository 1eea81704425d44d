//! `skillhost skill approve`.

use serde_json::json;
use skill_store::{LedgerErrorKind, SkillId, ToolGrant};

use super::consent::Consent;
use super::desk::{Desk, actor};
use super::page;
use crate::cli::ApproveArgs;
use crate::error::CliError;
use crate::exit;
use crate::output::{Outcome, show};
use crate::session::Session;

pub(super) fn approve(session: &Session, args: &ApproveArgs) -> Outcome {
    let desk = Desk::open(session)?;
    let skill = SkillId::new(&args.id).ok().filter(|id| desk.skills().get(id.as_str()).is_some());
    if let Some(skill) = skill
        && !names_proposal(&desk, &args.id)?
    {
        approve_skill(session, &desk, &skill, args)?;
        return Ok(exit::OK);
    }
    approve_proposal(session, &desk, args)
}

/// Whether there is a proposal with an id; ids of skills are looked at only where there is none.
fn names_proposal(desk: &Desk, id: &str) -> Result<bool, CliError> {
    desk.ask(|ledger, _| match ledger.proposal(id) {
        Ok(_) => Ok(true),
        Err(error) => match error.reason() {
            LedgerErrorKind::NotFound | LedgerErrorKind::Argument => Ok(false),
            LedgerErrorKind::Ambiguous => Ok(true),
            _ => Err(error),
        },
    })
}

fn approve_proposal(session: &Session, desk: &Desk, args: &ApproveArgs) -> Outcome {
    let (proposal, drift) = desk.proposal(&args.id)?;
    let summary = &proposal.summary;
    let consent = Consent {
        yes: args.yes,
        digest: args.digest.as_deref(),
        command: format!("skillhost skill approve {}", summary.id),
        look: format!("skillhost skill review {}", summary.id),
    };
    let question = format!(
        "Approve this text (digest {}) and write it to {} of `{}`?",
        summary.new_digest.short(),
        summary.path,
        summary.skill_id
    );
    consent.obtain(session, summary.new_digest, &question, || {
        page::print(session.output, &page::of(&proposal, &drift, session.output.width()))
    })?;
    let applied = desk.ask(|ledger, skills| {
        let reason = args.reason.as_deref();
        ledger.approve(skills, &actor("cli"), &summary.id, summary.new_digest, reason)
    })?;
    if session.output.json {
        session.output.object(&applied)?;
    } else {
        session.output.line(format!(
            "approved {}: {} of `{}` is written, version {}",
            summary.id,
            show(&summary.path),
            show(&applied.skill_id),
            applied.version
        ))?;
    }
    Ok(exit::OK)
}

/// Approves a whole skill, after a person has seen its files.
fn approve_skill(
    session: &Session,
    desk: &Desk,
    skill: &SkillId,
    args: &ApproveArgs,
) -> Result<(), CliError> {
    let id = skill.as_str();
    let created = desk.ask(|ledger, skills| ledger.approval_statuses(skills))?.remove(skill);
    let author = created.map(|standing| standing.author);
    let grant = desk.tool_grants()?.into_iter().find(|grant| grant.skill_id == *skill);
    let digest = desk.ask(|ledger, skills| ledger.tree_of(skills, id))?;
    let consent = Consent {
        yes: args.yes,
        digest: args.digest.as_deref(),
        command: format!("skillhost skill approve {id}"),
        look: format!("skillhost skill show {id}"),
    };
    let question = format!("Approve the whole skill `{id}` (digest {})?", digest.short());
    consent.obtain(session, digest, &question, || {
        desk.ask(|ledger, skills| ledger.history(skills, id))?;
        let tree = desk.ask(|ledger, _| ledger.version(id, None))?;
        page::print(session.output, &page::of_tree(id, author.as_ref(), grant.as_ref(), &tree))
    })?;
    desk.ask(|ledger, skills| ledger.approve_skill(skills, &actor("cli"), id, digest))?;
    if session.output.json {
        session.output.object(&json!({ "skill_id": id, "approved": true, "digest": digest }))?;
    } else {
        session.output.line(format!("approved the skill `{}` as it is", show(id)))?;
    }
    Ok(())
}

/// Offers a person at a terminal to approve the skills whose `allowed-tools` does not count. A no
/// leaves a skill as it is.
pub(super) fn offer_approvals(session: &Session, waiting: &[ToolGrant]) -> Result<(), CliError> {
    let desk = Desk::open(session)?;
    let args =
        |id: &SkillId| ApproveArgs { id: id.to_string(), yes: false, digest: None, reason: None };
    for grant in waiting {
        session.output.line("")?;
        if let Err(error) = approve_skill(session, &desk, &grant.skill_id, &args(&grant.skill_id)) {
            session.output.note(error.message());
        }
    }
    Ok(())
}
