//! Activation of skills: their instructions, and the grants of `allowed-tools`.

use std::path::Path;

use serde::Serialize;
use skill_catalog::{Audience, ErrorKind, RegistryError, SkillState, Snapshot, Store, TrustLevel};
use skill_format::AllowedTools;
use skill_ledger::Ledger;

use super::{BoundSkillContent, bound_content, check_approved, find_visible};

/// An activated skill; serialized in the kernel's wire format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ActivatedSkill {
    /// Its current instructions.
    pub content: BoundSkillContent,
    /// The tools that its `allowed-tools` names, in the order of the file; `None` if the field is
    /// missing, empty if it cannot be parsed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// `true` if `allowed-tools` has effect: the root is an operator's and a person approved exactly
    /// these files.
    pub grants: bool,
}

impl ActivatedSkill {
    /// Makes the path of SKILL.md relative to a directory that contains it.
    #[must_use]
    pub fn below(self, dir: &Path) -> Self {
        Self { content: self.content.relative_to(dir), ..self }
    }
}

/// Returns a skill to activate: for a model, one that it may read; for a person, one that users may
/// invoke. The ledger is only read for skills that name tools and lie in an operator's root.
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
) -> Result<ActivatedSkill, RegistryError> {
    let skill = find_visible(snapshot, id, audience)?;
    let denied =
        |message: String, hint: String| Err(RegistryError::new(ErrorKind::Denied, message, hint));
    if snapshot.state(skill) == SkillState::Off {
        return denied(
            format!("`{id}` is off"),
            format!("run `skillhost skill enable {}` to enable it", skill.id()),
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
    Ok(ActivatedSkill { content: bound_content(id, skill, &source), allowed_tools, grants })
}
