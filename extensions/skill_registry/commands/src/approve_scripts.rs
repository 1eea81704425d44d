//! `skillhost skill approve-scripts`: the grant for the scripts of a skill, and its end.

use serde_json::json;
use skill_format::Digest;
use skillhost_home::{ApprovalSurface, Approver, ScriptGrant, ScriptGrants};
use skillhost_policy::PolicyUse;
use skillhost_sandbox::SandboxLauncher;
use skillhost_scripts::{GrantTerms, has_code};
use skillhost_terminal::{CliContext, CliError, CommandResult, display_safe, exit};

use super::consent::{ApprovalFlags, short_digest};
use super::operator_policy::{operator_policy, refusal};
use super::run_script::read_tree;
use crate::arguments::{ApproveScriptsArgs, SkillRoots};

pub(super) fn cmd_skill_approve_scripts(
    session: &CliContext,
    args: &ApproveScriptsArgs,
) -> CommandResult {
    let home = session.trusted_home()?;
    let tree = read_tree(session, &args.id, &SkillRoots::default())?;
    let id = &tree.skill_id;
    let operator = Approver::operator(match args.yes {
        true => ApprovalSurface::CommandLine,
        false => ApprovalSurface::Terminal,
    });
    if args.revoke {
        let grants = ScriptGrants::load(&home)?;
        let grant = grants.find(id, &tree.root).ok_or_else(|| {
            let message = format!("the scripts and programs of `{id}` are not approved");
            CliError::new(exit::NOT_FOUND, message)
        })?;
        ScriptGrants::append(&home, &grant.revoked(&operator))?;
        return report(session, id, None);
    }
    if !tree.is_operator_root {
        let message = format!("`{id}` lies in a root that is not the operator's, or is unapproved");
        return Err(CliError::new(exit::IO, message).with_hint(
            "its code is approved per run or thread; set `trust: operator` for its root in \
             skillhost.yaml if you trust all of its skills",
        ));
    }
    let policy = operator_policy(Some(&home))?;
    if !has_code(&tree, &policy) {
        let message = format!("`{}` has no scripts or programs", display_safe(id));
        return Err(CliError::new(exit::NOT_FOUND, message));
    }
    let terms = GrantTerms::determine(&policy, &SandboxLauncher::default(), &tree);
    let terms = terms.map_err(refusal)?;
    let digest: Digest = tree
        .digest
        .trim_start_matches("sha256:")
        .parse()
        .map_err(|error| CliError::new(exit::IO, format!("the digest of `{id}`: {error}")))?;
    let consent = ApprovalFlags {
        yes: args.yes,
        digest: args.digest.as_deref(),
        command: format!("skillhost skill approve-scripts {id}"),
        look: format!("skillhost skill show {id}"),
    };
    let question = format!(
        "Let agents run all scripts and programs of `{id}` (files digest {}) without a question?",
        short_digest(digest)
    );
    consent.require(session, digest, &question, || {
        session.output.print_text(&terms.describe(&tree))
    })?;
    let grant = terms.to_grant(&tree, &operator);
    ScriptGrants::append(&home, &grant)?;
    report(session, id, Some(&grant))
}

fn report(session: &CliContext, id: &str, grant: Option<&ScriptGrant>) -> CommandResult {
    let level = |grant: &ScriptGrant, policy_use| {
        grant.policy(policy_use).map(|policy| policy.level.as_str())
    };
    if session.output.json {
        session.output.print_json(&json!({
            "skill_id": id,
            "scripts_approved": grant.is_some(),
            "digest": grant.map(|grant| &grant.digest),
            "script_level": grant.and_then(|it| level(it, PolicyUse::Script)),
            "program_level": grant.and_then(|it| level(it, PolicyUse::Handler)),
        }))?;
    } else {
        let id = display_safe(id);
        session.output.print_line(match grant {
            Some(_) => format!("approved the scripts and programs of `{id}` as they are"),
            None => format!("revoked the approval of the scripts and programs of `{id}`"),
        })?;
    }
    Ok(exit::OK)
}
