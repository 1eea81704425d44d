//! `skillhost skill approve`.

use serde_json::json;
use skill_store::{LedgerErrorKind, SkillId};

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
        return approve_skill(session, &desk, &skill, args);
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

fn approve_skill(session: &Session, desk: &Desk, skill: &SkillId, args: &ApproveArgs) -> Outcome {
    let id = skill.as_str();
    let standing = desk.ask(|ledger, skills| ledger.standing(skills))?.remove(skill);
    let Some(standing) = standing else {
        let message = format!("there is no proposal `{id}`, and no agent created the skill `{id}`");
        return Err(CliError::new(exit::NOT_FOUND, message)
            .hint(format!("`skillhost skill proposals --skill {id}` lists what waits for it")));
    };
    let consent = Consent {
        yes: args.yes,
        digest: args.digest.as_deref(),
        command: format!("skillhost skill approve {id}"),
        look: format!("skillhost skill show {id}"),
    };
    let question = format!("Approve the whole skill `{id}` (digest {})?", standing.digest.short());
    consent.obtain(session, standing.digest, &question, || {
        desk.ask(|ledger, skills| ledger.history(skills, id))?;
        let tree = desk.ask(|ledger, _| ledger.version(id, None))?;
        page::print(session.output, &page::of_tree(id, &standing.author, &tree))
    })?;
    desk.ask(|ledger, skills| ledger.approve_skill(skills, &actor("cli"), id, standing.digest))?;
    if session.output.json {
        let digest = standing.digest;
        session.output.object(&json!({ "skill_id": id, "approved": true, "digest": digest }))?;
    } else {
        session.output.line(format!("approved the skill `{}` as it is", show(id)))?;
    }
    Ok(exit::OK)
}
