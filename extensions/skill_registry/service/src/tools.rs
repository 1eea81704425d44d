//! The registry's tools, which the offline commands use, too.
//!
//! Every result has a text for models and people, and a value for programs. Arguments come from
//! models and are untrusted: they can only select entries of the snapshot.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use skill_catalog::{
    Advice, Audience, CreatedSkill, NextStep, RegistryError, ScanProblem, Skill, SkillSource,
    SkillState, Snapshot, SourceState, Store, TrustLevel,
};
use skill_format::{TokenCount, sanitize_line};
use skill_ledger::{SkillAccess, current_digests};
use skillhost_payload::{ErrorKind, OperatorCommand, SkillContent};

use crate::ineligible::ineligible_error;

mod activate;
mod list;
mod properties;
mod propose;
mod read;
mod resource;
mod search;
mod session;
mod skill_files;
mod spec;
mod values;

pub use activate::activate_skill;
pub use list::{list_skills, matching_skills};
pub use propose::propose_skill_update;
pub use read::read_skill;
pub use resource::read_skill_resource;
pub(crate) use resource::to_registry_error;
pub use search::{SearchContext, search_skills};
pub(crate) use session::loaded_id;
pub use session::{
    LOAD_SKILLS, LoadMode, LoadSkillsArgs, READ_LOADED, ReadLoadedArgs, SessionAnswer,
    UNLOAD_SKILLS, UnloadSkillsArgs, check_room, load_skills, read_loaded, unload_skills,
};
pub use skill_files::skill_tree;
pub use spec::tool_specs;

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolAnswer {
    /// The text for a model or a person.
    pub text: String,
    /// The value for a program.
    pub structured: Value,
    /// The part of a skill that the result contains, for the log of reads.
    pub read: Option<SkillAccess>,
}

impl ToolAnswer {
    /// Adds notes about a skill that was read, each on a line of its own.
    #[must_use]
    pub fn with_notes(mut self, notes: Vec<String>) -> Self {
        for note in notes {
            self.text.push_str(&format!("\nNote: {note}."));
            if let Some(stored) = self.structured["notes"].as_array_mut() {
                stored.push(json!(note));
            }
        }
        self
    }

    /// Returns the skill whose instructions the text contains, and the digest of its SKILL.md.
    #[must_use]
    pub fn skill(&self) -> Option<(String, String)> {
        let read = self.read.as_ref().filter(|read| read.path.is_none())?;
        Some((read.skill_id.clone(), read.digest?.to_string()))
    }
}

/// The arguments of `list_skills`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListSkillsArgs {
    /// The task that the skills are to fit; for [`list_skills`] a text that occurs in their id,
    /// name, description or tags, ignoring case.
    pub query: Option<String>,
    /// The maximum number of skills; by default 100, or 10 with a query.
    pub limit: Option<usize>,
    /// Only skills that have all of these tags, ignoring case.
    pub tags: Option<Vec<String>>,
}

/// The arguments of `read_skill`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadSkillArgs {
    /// The skill's id, or `id@label` for one that another root shadows.
    pub skill_id: String,
}

/// The arguments of `read_skill_resource`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadResourceArgs {
    /// The skill's id.
    pub skill_id: String,
    /// The file's path below the skill's directory.
    pub path: String,
    /// The offset of the first byte; 0 if it is not given.
    #[serde(default)]
    pub offset: Option<u64>,
    /// The maximum number of bytes; one page if it is not given or larger.
    #[serde(default)]
    pub limit: Option<u64>,
}

/// The arguments of `explain_catalog`; the call's context names the agent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainCatalogArgs {
    /// The message of the user.
    pub prompt: String,
}

/// Returns the content that `uses_skills` adds to an agent's instructions. Its source is the path of
/// SKILL.md, relative to `base` if it lies below it.
///
/// # Errors
/// [`ErrorKind::NotFound`] for an unknown id, [`ErrorKind::Denied`] for a skill of an untrusted
/// root, for one that is off and for one that an agent created and no person approved,
/// [`ErrorKind::Io`] if its text cannot be read and no good one is cached. A skill for users only
/// may be bound: the author of a manifest is an operator.
pub fn skill_content(
    store: &Store,
    snapshot: &Snapshot,
    id: &str,
    base: &Path,
) -> Result<SkillContent, RegistryError> {
    let skill = find_visible(snapshot, id, Audience::Operator)?;
    if snapshot.state(skill) == SkillState::Off {
        let setting = snapshot.matching_setting(skill).unwrap_or_default();
        return Err(RegistryError::new(
            ErrorKind::Denied,
            format!(
                "`{id}` is off: skillhost.yaml has extensions.skill_registry.skills.{setting}: off"
            ),
            format!(
                "run `{}`, or do not bind the skill",
                OperatorCommand::EnableSkill { id: skill.id().as_str() }
            ),
        ));
    }
    if skill.trust() == TrustLevel::Untrusted {
        return Err(RegistryError::new(
            ErrorKind::Denied,
            format!("`{id}` lies in the untrusted root `{}` and cannot be bound", skill.source()),
            "copy the skill into a trusted root, or set `trust: operator` for its root in \
             skillhost.yaml if you trust all of its skills",
        ));
    }
    let source = store.read(skill)?;
    if let Some(created) = snapshot.created().get(skill.id()) {
        check_approved(skill, created, &source)?;
    }
    Ok(bound_content(id, skill, &source, base))
}

/// Wraps a skill's text in its element of a prompt.
fn bound_content(id: &str, skill: &Skill, source: &SkillSource, base: &Path) -> SkillContent {
    let text = skill_format::wrap_content(id, &source.digest, source.body());
    let location = skill.location();
    let location = location.strip_prefix(base).unwrap_or(&location);
    SkillContent {
        skill_id: id.to_owned(),
        tokens: TokenCount::estimate(&text).get(),
        text,
        digest: source.digest.to_string(),
        source: location.to_string_lossy().into_owned(),
    }
}

/// Checks that a person approved exactly the current files of a skill that an agent created.
fn check_approved(
    skill: &Skill,
    created: &CreatedSkill,
    source: &SkillSource,
) -> Result<(), RegistryError> {
    // Read from the disk, because other files than SKILL.md may have changed since the scan.
    let (tree, read) = current_digests(skill)?;
    if created.approved == Some(tree) && read == Some(source.digest) {
        return Ok(());
    }
    let (id, tree) = (skill.id(), tree.to_string());
    let approve = OperatorCommand::ApproveSkill { id: id.as_str(), digest: Some(&tree) };
    Err(RegistryError::new(
        ErrorKind::Denied,
        format!("`{id}` was created by {} and is not approved as it is now", created.author_line()),
        format!("inspect its files, then run: {approve}"),
    ))
}

/// Looks a skill up for an audience. To a model, a skill that it may not read does not exist.
pub(crate) fn find_visible<'s>(
    snapshot: &'s Snapshot,
    id: &str,
    audience: Audience<'_>,
) -> Result<&'s Arc<Skill>, RegistryError> {
    let found = snapshot.get(id);
    if let Some(skill) = found.filter(|skill| snapshot.is_readable(audience, skill)) {
        return Ok(skill);
    }
    let name: String = id.chars().take(128).collect();
    if let (Some(skill), Some(scope)) = (found, audience.scope())
        && let Some(reason) = snapshot.view(scope).hidden_reason(skill)
        && (snapshot.view(scope).contains(snapshot, skill)
            || snapshot.view(scope).is_bound(snapshot, skill))
    {
        return Err(ineligible_error(&name, reason));
    }
    // Only skills in the agent's scope are explained; others must not be revealed.
    let view = audience.scope().map(|scope| snapshot.view(scope));
    let is_in_scope = |id| view.is_none_or(|view| view.contains_id(snapshot, id));
    if let Some(skill) = found
        && snapshot.state(skill) == SkillState::UserOnly
        && view.is_some_and(|view| view.contains(snapshot, skill))
    {
        let why = if skill.is_model_invocable() {
            "the settings restrict it"
        } else {
            "it sets disable-model-invocation"
        };
        return Err(RegistryError::new(
            ErrorKind::Denied,
            format!("`{name}` is for users only: {why}"),
            "ask the user to invoke it",
        ));
    }
    // A caller that names a broken skill needs its problem, not only that it does not exist.
    let skipped = |problem: &&Arc<ScanProblem>| {
        problem.skipped && problem.skill.as_ref().is_some_and(|skill| skill.as_str() == id)
    };
    let problem = snapshot.problems().iter().find(skipped);
    if let Some(problem) = problem.filter(|_| found.is_none() && is_in_scope(id)) {
        return Err(RegistryError::new(
            ErrorKind::NotFound,
            format!(
                "the skill `{name}` is left out: {}",
                sanitize_line(&problem.diagnostic.message)
            ),
            problem.diagnostic.help.clone().unwrap_or_else(|| "repair its SKILL.md".to_owned()),
        ));
    }
    Err(RegistryError::not_found(
        format!("skill `{name}` not found"),
        snapshot.similar(&name, audience),
        Advice::from(NextStep::ListSkills).with_text(" shows the available skills"),
    ))
}

/// Adds to a value whether a text is current on the disk and in the snapshot.
fn describe_state(value: &mut Value, skill: &Skill, source: &SkillSource) {
    value["changed_since_snapshot"] =
        json!(skill.digest().is_some_and(|digest| digest != source.digest));
    match &source.state {
        SourceState::Current => value["state"] = json!("current"),
        SourceState::LastGood { problem } => {
            value["state"] = json!("last_good");
            value["problem"] = json!(problem);
        }
    }
}
