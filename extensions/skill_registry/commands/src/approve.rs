//! `skillhost skill approve`.

use serde_json::json;
use skill_format::SkillId;
use skill_ledger::{LedgerErrorKind, ToolGrant};
use skillhost_terminal::{CliContext, CliError, CommandResult, display_safe, exit};

use super::consent::{ApprovalFlags, short_digest};
use super::page;
use super::review_context::{ReviewContext, current_actor};
use crate::arguments::ApproveArgs;

pub(super) fn cmd_skill_approve(session: &CliContext, args: &ApproveArgs) -> CommandResult {
    let context = ReviewContext::open(session)?;
    let skill =
        SkillId::new(&args.id).ok().filter(|id| context.snapshot().get(id.as_str()).is_some());
    if let Some(skill) = skill
        && !names_proposal(&context, &args.id)?
    {
        approve_skill(session, &context, &skill, args)?;
        return Ok(exit::OK);
    }
    approve_proposal(session, &context, args)
}

/// Returns whether the ledger has a proposal with this id; it takes precedence over a skill's id.
fn names_proposal(context: &ReviewContext, id: &str) -> Result<bool, CliError> {
    context.with_ledger(|ledger, _| match ledger.proposal(id) {
        Ok(_) => Ok(true),
        Err(error) => match error.reason() {
            LedgerErrorKind::NotFound | LedgerErrorKind::Argument => Ok(false),
            LedgerErrorKind::Ambiguous => Ok(true),
            _ => Err(error),
        },
    })
}

fn approve_proposal(
    session: &CliContext,
    context: &ReviewContext,
    args: &ApproveArgs,
) -> CommandResult {
    let (proposal, drift) = context.proposal(&args.id)?;
    let summary = &proposal.summary;
    let consent = ApprovalFlags {
        yes: args.yes,
        digest: args.digest.as_deref(),
        command: format!("skillhost skill approve {}", summary.id),
        look: format!("skillhost skill proposal review {}", summary.id),
    };
    let question = format!(
        "Approve this text (digest {}) and write it to {} of `{}`?",
        short_digest(summary.review_digest()),
        summary.path,
        summary.skill_id
    );
    consent.require(session, summary.review_digest(), &question, || {
        page::print(session.output, &page::proposal_page(&proposal, &drift, session.output.width()))
    })?;
    let applied = context.with_ledger(|ledger, skills| {
        let reason = args.reason.as_deref();
        ledger.approve(skills, &current_actor("cli"), &summary.id, summary.review_digest(), reason)
    })?;
    if session.output.json {
        session.output.print_json(&applied)?;
    } else {
        session.output.print_line(format!(
            "approved {}: {} of `{}` is written, version {}",
            summary.id,
            display_safe(&summary.path),
            display_safe(&applied.skill_id),
            applied.version
        ))?;
    }
    Ok(exit::OK)
}

/// Approves a whole skill after the user has reviewed its files.
fn approve_skill(
    session: &CliContext,
    context: &ReviewContext,
    skill: &SkillId,
    args: &ApproveArgs,
) -> Result<(), CliError> {
    let id = skill.as_str();
    let created =
        context.with_ledger(|ledger, skills| ledger.approval_statuses(skills))?.remove(skill);
    let author = created.map(|standing| standing.author);
    let grant = context.tool_grants()?.into_iter().find(|grant| grant.skill_id == *skill);
    let digest = context.with_ledger(|ledger, skills| ledger.tree_of(skills, id))?;
    let consent = ApprovalFlags {
        yes: args.yes,
        digest: args.digest.as_deref(),
        command: format!("skillhost skill approve {id}"),
        look: format!("skillhost skill show {id}"),
    };
    let question = format!("Approve the whole skill `{id}` (digest {})?", short_digest(digest));
    consent.require(session, digest, &question, || {
        context.with_ledger(|ledger, skills| ledger.history(skills, id))?;
        let tree = context.with_ledger(|ledger, _| ledger.version(id, None))?;
        page::print(session.output, &page::version_page(id, author.as_ref(), grant.as_ref(), &tree))
    })?;
    context.with_ledger(|ledger, skills| {
        ledger.approve_skill(skills, &current_actor("cli"), id, digest)
    })?;
    if session.output.json {
        session
            .output
            .print_json(&json!({ "skill_id": id, "approved": true, "digest": digest }))?;
    } else {
        session.output.print_line(format!("approved the skill `{}` as it is", display_safe(id)))?;
    }
    Ok(())
}

/// Offers the user at a terminal to approve skills with pending `allowed-tools`. A refusal leaves a
/// skill unchanged.
pub(super) fn offer_approvals(session: &CliContext, waiting: &[ToolGrant]) -> Result<(), CliError> {
    let context = ReviewContext::open(session)?;
    let args =
        |id: &SkillId| ApproveArgs { id: id.to_string(), yes: false, digest: None, reason: None };
    for grant in waiting {
        session.output.print_line("")?;
        if let Err(error) =
            approve_skill(session, &context, &grant.skill_id, &args(&grant.skill_id))
        {
            session.output.print_note(error.message());
        }
    }
    Ok(())
}
