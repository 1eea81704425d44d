//! Activation of skills: their instructions, and the grants of `allowed-tools`.

use std::path::Path;

use skill_catalog::{Audience, RegistryError, SkillState, Snapshot, Store, TrustLevel};
use skill_compat::extended::{ExecutionOrder, SecurityManifest, SkillComposition};
use skill_format::AllowedTools;
use skill_ledger::Ledger;
use skillhost_payload::{ActiveSkill, ErrorKind, OperatorCommand};

use crate::declared_spec::{UnreadableDeclarations, read_declared};

use super::{bound_content, check_approved, find_visible};

/// Returns a skill to activate: for a model, one that it may read; for a person, one that users may
/// invoke. The ledger is only read for skills that name tools and lie in an operator's root. The
/// source of the content is relative to `base`, as in [`skill_content`](super::skill_content).
///
/// # Errors
/// [`ErrorKind::NotFound`] for an id that is unknown to the audience, [`ErrorKind::Denied`] if a
/// model requests a skill for users only, and if a person requests one that is off or not for
/// users, [`ErrorKind::Io`] if its text cannot be read and no good one is cached.
pub fn activate_skill(
    store: &Store,
    snapshot: &Snapshot,
    ledger: &Ledger,
    audience: Audience<'_>,
    id: &str,
    base: &Path,
) -> Result<ActiveSkill, RegistryError> {
    let skill = find_visible(snapshot, id, audience)?;
    let denied =
        |message: String, hint: String| Err(RegistryError::new(ErrorKind::Denied, message, hint));
    if snapshot.state(skill) == SkillState::Off {
        return denied(
            format!("`{id}` is off"),
            format!(
                "run `{}` to enable it",
                OperatorCommand::EnableSkill { id: skill.id().as_str() }
            ),
        );
    }
    if audience == Audience::Operator && !skill.is_user_invocable() {
        return denied(
            format!("`{id}` cannot be invoked by users"),
            "describe the task instead; the model loads the skill by itself".to_owned(),
        );
    }
    let source = store.read(skill)?;
    let allowed_tools = match &source.frontmatter.allowed_tools {
        AllowedTools::Absent => None,
        AllowedTools::List(tools) => Some(tools.clone()),
        // Unreadable restricts to no tool at all, since the intended list is unknown.
        AllowedTools::Unparsable => Some(Vec::new()),
    };
    let names_tools = allowed_tools.as_ref().is_some_and(|tools| !tools.is_empty());
    // In this order: the ledger, which takes a lock, comes last.
    let grants = names_tools
        && skill.trust() == TrustLevel::Operator
        && match snapshot.created().get(skill.id()) {
            Some(created) => check_approved(skill, created, &source).is_ok(),
            None => ledger.counts(skill, source.digest),
        };
    let declared = read_declared(skill, &source.frontmatter);
    // A `skill.yaml` that cannot be read must not be taken for one that permits everything.
    let capabilities = match &declared {
        Ok(spec) => spec.security.as_ref().map(SecurityManifest::effective_capabilities),
        Err(UnreadableDeclarations) => Some(Vec::new()),
    };
    let composition = declared.ok().and_then(|spec| spec.composition);
    let (precedes, follows) = composition.as_ref().map(list_neighbors).unwrap_or_default();
    Ok(ActiveSkill {
        content: bound_content(id, skill, &source, base),
        allowed_tools,
        grants,
        capabilities,
        precedes,
        follows,
    })
}

/// Returns the skills that come after a skill in a prompt, and those that come before it.
fn list_neighbors(composition: &SkillComposition) -> (Vec<String>, Vec<String>) {
    let ids = composition.dependencies.iter().map(|needed| needed.skill_name.clone()).collect();
    match composition.execution_order {
        Some(ExecutionOrder::Before) => (ids, Vec::new()),
        Some(ExecutionOrder::After) | None => (Vec::new(), ids),
        Some(ExecutionOrder::Independent) => Default::default(),
    }
}
