//! What the registry's tools and the offline commands answer.
//!
//! Every answer is a text for whoever reads it and a value for programs. Arguments come from models
//! and are taken at their word only as far as they name something in the snapshot.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use skill_format::{Digest, TokenCount, sanitize_line};

use crate::created::CreatedSkill;
use crate::error::{ErrorKind, RegistryError};
use crate::ledger::tree_digest;
use crate::options::TrustLevel;
use crate::problem::ScanProblem;
use crate::scope::Audience;
use crate::skill::Skill;
use crate::snapshot::Snapshot;
use crate::source::{SkillSource, SourceState};
use crate::state::SkillState;
use crate::store::Store;

mod activate;
mod list;
mod propose;
mod read;
mod resource;
mod search;
mod spec;
mod values;

pub use activate::{ActivatedSkill, activate_skill};
pub use list::{list_skills, matching_skills};
pub use propose::{propose_skill_update, propose_with_events};
pub use read::read_skill;
pub use resource::read_skill_resource;
pub(crate) use resource::to_registry_error;
pub use search::{SearchContext, search_skills};
pub use spec::{ToolDescription, tool_descriptions};

/// What a tool answers.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolAnswer {
    /// For a model or a person.
    pub text: String,
    /// For a program.
    pub structured: Value,
    /// What of a skill it hands out, for the log of what is used.
    pub read: Option<SkillAccess>,
}

impl ToolAnswer {
    /// Returns the skill whose instructions the text carries, and the digest of its SKILL.md.
    #[must_use]
    pub fn skill(&self) -> Option<(String, String)> {
        let read = self.read.as_ref().filter(|read| read.path.is_none())?;
        Some((read.skill_id.clone(), read.digest?.to_string()))
    }
}

/// What an answer hands out of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillAccess {
    /// The skill, as it was asked for.
    pub skill_id: String,
    /// The path of the file, if it is not the instructions.
    pub path: Option<String>,
    /// The digest of SKILL.md, where it is known.
    pub digest: Option<Digest>,
    /// What it costs a model.
    pub tokens: TokenCount,
}

/// The arguments of `list_skills`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListSkillsArgs {
    /// What the skills are to fit; for [`list_skills`] a text that occurs in their id, name,
    /// description or tags, whatever the case.
    pub query: Option<String>,
    /// At most this many skills; if it is not given, 100, or 10 of those that fit a query.
    pub limit: Option<usize>,
    /// Only skills that have all of these tags, whatever the case.
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
    /// The byte to start at; 0 if it is not given.
    #[serde(default)]
    pub offset: Option<u64>,
    /// At most this many bytes; a page if it is not given or larger.
    #[serde(default)]
    pub limit: Option<u64>,
}

/// The arguments of `explain_catalog`; whose catalog it is, the call's context says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainCatalogArgs {
    /// What the user says.
    pub prompt: String,
}

/// A skill as it is bound into an agent's instructions; serialised as the kernel has it on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BoundSkillContent {
    /// The skill, as it was asked for.
    pub skill_id: String,
    /// The body in its `<skill_content>` element.
    pub text: String,
    /// The digest of SKILL.md.
    pub digest: Digest,
    /// What `text` costs a model.
    pub tokens: TokenCount,
    /// The label of the root it was found in.
    #[serde(skip)]
    pub root: String,
    /// Its SKILL.md.
    #[serde(rename = "source")]
    pub location: PathBuf,
}

impl BoundSkillContent {
    /// Names the SKILL.md relative to a directory that it lies in.
    #[must_use]
    pub fn relative_to(mut self, dir: &Path) -> Self {
        if let Ok(rest) = self.location.strip_prefix(dir) {
            self.location = rest.to_owned();
        }
        self
    }
}

/// Returns what `uses_skills` puts into an agent's instructions.
///
/// # Errors
/// [`ErrorKind::NotFound`] for an unknown id, [`ErrorKind::Denied`] for a skill of an untrusted
/// root, for one that is off and for one that an agent created and nobody approved,
/// [`ErrorKind::Io`] if its text cannot be read and no good one is held. A skill for users only may
/// be bound: who writes a manifest is an operator.
pub fn skill_content(
    store: &Store,
    snapshot: &Snapshot,
    id: &str,
) -> Result<BoundSkillContent, RegistryError> {
    let skill = find_visible(snapshot, id, Audience::Operator)?;
    if snapshot.state(skill) == SkillState::Off {
        let setting = snapshot.matching_setting(skill).unwrap_or_default();
        return Err(RegistryError::new(
            ErrorKind::Denied,
            format!(
                "`{id}` is off: skillhost.yaml has extensions.skill_registry.skills.{setting}: off"
            ),
            format!("run `skillhost skill enable {}`, or do not bind the skill", skill.id()),
        ));
    }
    if skill.trust() == TrustLevel::Untrusted {
        return Err(RegistryError::new(
            ErrorKind::Denied,
            format!("`{id}` lies in the untrusted root `{}` and cannot be bound", skill.source()),
            "copy the skill into a trusted root, or set `trust: operator` for its root in \
             skillhost.yaml if you answer for everything in it",
        ));
    }
    let source = store.read(skill)?;
    if let Some(created) = snapshot.created().get(skill.id()) {
        check_approved(skill, created, &source)?;
    }
    Ok(content(id, skill, &source))
}

/// Puts a skill's text into the element that it has in a prompt.
fn content(id: &str, skill: &Skill, source: &SkillSource) -> BoundSkillContent {
    let text = skill_format::wrap_content(id, &source.digest, source.body());
    BoundSkillContent {
        skill_id: id.to_owned(),
        tokens: TokenCount::estimate(&text),
        text,
        digest: source.digest,
        root: skill.source().to_owned(),
        location: skill.location(),
    }
}

/// Refuses a skill that an agent created unless a person approved exactly these files.
fn check_approved(
    skill: &Skill,
    created: &CreatedSkill,
    source: &SkillSource,
) -> Result<(), RegistryError> {
    // Its other files may have changed since somebody last looked.
    let (tree, read) = tree_digest(skill)?;
    if created.approved == Some(tree) && read == Some(source.digest) {
        return Ok(());
    }
    let id = skill.id();
    Err(RegistryError::new(
        ErrorKind::Denied,
        format!("`{id}` was created by {} and is not approved as it is now", created.author_line()),
        format!("look at its files, then: skillhost skill approve {id} --digest {tree}"),
    ))
}

/// Looks a skill up for somebody. What a model may not have is to it as if it were not there.
pub(crate) fn find_visible<'s>(
    snapshot: &'s Snapshot,
    id: &str,
    audience: Audience<'_>,
) -> Result<&'s Arc<Skill>, RegistryError> {
    let found = snapshot.get(id);
    if let Some(skill) = found.filter(|skill| snapshot.is_readable(audience, skill)) {
        return Ok(skill);
    }
    let shown: String = id.chars().take(128).collect();
    let view = audience.scope().map(|scope| snapshot.view(scope));
    let is_in_scope = |id| view.is_none_or(|view| view.contains_id(snapshot, id));
    if let Some(skill) = found
        && snapshot.state(skill) == SkillState::UserOnly
        && view.is_some_and(|view| view.contains(snapshot, skill))
    {
        let why = if skill.is_model_invocable() {
            "the settings say so"
        } else {
            "it sets disable-model-invocation"
        };
        return Err(RegistryError::new(
            ErrorKind::Denied,
            format!("`{shown}` is for users only: {why}"),
            "ask the user to invoke it",
        ));
    }
    // Somebody who names it wants to know why it is not there.
    let skipped = |problem: &&Arc<ScanProblem>| {
        problem.skipped && problem.skill.as_ref().is_some_and(|skill| skill.as_str() == id)
    };
    let problem = snapshot.problems().iter().find(skipped);
    if let Some(problem) = problem.filter(|_| found.is_none() && is_in_scope(id)) {
        return Err(RegistryError::new(
            ErrorKind::NotFound,
            format!(
                "the skill `{shown}` is left out: {}",
                sanitize_line(&problem.diagnostic.message)
            ),
            problem.diagnostic.help.clone().unwrap_or_else(|| "repair its SKILL.md".to_owned()),
        ));
    }
    Err(RegistryError::not_found(
        format!("there is no skill `{shown}`"),
        snapshot.similar(&shown, audience),
        "list_skills shows what there is",
    ))
}

/// Adds to a value how a text relates to the disk and to the snapshot.
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
