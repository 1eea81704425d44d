//! Skills that an agent works by: their instructions, and what they say about tools.

use std::path::Path;

use serde::Serialize;
use skill_format::AllowedTools;

use crate::error::{ErrorKind, RegistryError};
use crate::ledger::Ledger;
use crate::options::TrustLevel;
use crate::scope::Audience;
use crate::snapshot::Snapshot;
use crate::state::SkillState;
use crate::store::Store;

use super::{BoundSkillContent, check_approved, content, find_visible};

/// A skill that an agent works by; serialised as the kernel has it on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ActivatedSkill {
    /// Its instructions as they are now.
    pub content: BoundSkillContent,
    /// The tools that its `allowed-tools` names, in the order written; nothing where it makes no
    /// statement, none of them where the field cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// Whether `allowed-tools` counts: its root is an operator's and a person approved exactly these
    /// files.
    pub grants: bool,
}

impl ActivatedSkill {
    /// Names the SKILL.md relative to a directory that it lies in.
    #[must_use]
    pub fn below(self, dir: &Path) -> Self {
        Self { content: self.content.relative_to(dir), ..self }
    }
}

/// Returns a skill that somebody wants an agent to work by: a model what it may read, a person what
/// users may invoke. The ledger is asked only about skills that name tools and lie in an operator's
/// root.
///
/// # Errors
/// [`ErrorKind::NotFound`] for an id that is unknown to the audience, [`ErrorKind::Denied`] where a
/// model asks for what is for users only and where a person asks for what is off or not for users,
/// [`ErrorKind::Io`] if its text cannot be read and no good one is held.
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
            format!("run `skillhost skill enable {}` to have it back", skill.id()),
        );
    }
    if audience == Audience::Operator && !skill.is_user_invocable() {
        return denied(
            format!("`{id}` is not for users to invoke"),
            "ask for what it is for; the model loads it by itself".to_owned(),
        );
    }
    let source = store.read(skill)?;
    let allowed_tools = match &source.frontmatter.allowed_tools {
        AllowedTools::Absent => None,
        AllowedTools::List(tools) => Some(tools.clone()),
        AllowedTools::Unparsable => Some(Vec::new()),
    };
    let names_tools = allowed_tools.as_ref().is_some_and(|tools| !tools.is_empty());
    let grants = names_tools
        && skill.trust() == TrustLevel::Operator
        && match snapshot.created().get(skill.id()) {
            Some(created) => check_approved(skill, created, &source).is_ok(),
            None => ledger.counts(skill, source.digest),
        };
    Ok(ActivatedSkill { content: content(id, skill, &source), allowed_tools, grants })
}
