//! The prompt that a model gets when a user invokes a skill.

use std::collections::BTreeMap;

use skill_catalog::{Audience, RegistryError, SkillState, Snapshot, Store};
use skill_format::Digest;
use skillhost_payload::{ErrorKind, PublishedPrompt};

use super::argument::{read_arguments, substitute_arguments};
use super::uri::published_skill;

/// Renders the prompt of a skill from a user's values, by the arguments' names: the instructions in
/// their `<skill_content>` element. Returns it with the digest of SKILL.md. The audience is that of
/// the model that gets it; its scope also applies to its user.
///
/// # Errors
/// [`ErrorKind::NotFound`] for a skill that is unknown, off or out of scope, [`ErrorKind::Denied`] for one that persons do not
/// invoke, [`ErrorKind::Io`] if its text cannot be read and no good one is held.
pub(crate) fn skill_prompt(
    store: &Store,
    snapshot: &Snapshot,
    audience: Audience<'_>,
    skill_id: &str,
    given: &BTreeMap<String, String>,
) -> Result<(PublishedPrompt, Digest), RegistryError> {
    let skill = published_skill(snapshot, Audience::Operator, skill_id)?;
    let is_off = snapshot.state(skill) == SkillState::Off;
    if is_off || !audience.scope().is_none_or(|of| snapshot.view(of).contains(snapshot, skill)) {
        return Err(RegistryError::not_found(
            format!("skill `{skill_id}` not found"),
            snapshot.similar(skill_id, audience),
            "",
        ));
    }
    if !skill.is_user_invocable() {
        return Err(RegistryError::new(
            ErrorKind::Denied,
            format!("`{skill_id}` is not for users to invoke"),
            "ask for what it is for; the model loads it by itself",
        ));
    }
    let source = store.read(skill)?;
    let declared = read_arguments(&source.frontmatter);
    // Declared arguments keep the order of their author; other values follow.
    let named = declared.iter().filter_map(|argument| given.get_key_value(&argument.name));
    let others = given.iter().filter(|(name, _)| declared.iter().all(|a| a.name != **name));
    let values: Vec<_> = named.chain(others).map(|(name, text)| (&**name, &**text)).collect();
    let body = substitute_arguments(source.body(), &values);
    let text = skill_format::wrap_content(skill_id, &source.digest, &body);
    Ok((PublishedPrompt { text }, source.digest))
}
