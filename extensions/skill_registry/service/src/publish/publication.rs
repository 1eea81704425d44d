//! The data of clients outside of a kernel, in the shapes that the kernel has on the wire.
//!
//! A server passes these values on unchanged: their fields are those of the kernel's contract, on
//! which this crate does not depend.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};
use skill_catalog::{Audience, RegistryError, Skill, SkillState, Snapshot, Store, TrustLevel};
use skill_format::TokenCount;
use skill_ledger::SkillAccess;

use super::prompt::skill_prompt;
use super::uri::skill_uris;
use super::{
    DirectoryChild, FileContent, FileManifest, PromptArgument, SkillEntry, SkillPrompt,
    SkillPublisher, locate_uri, published_directory, read_published,
};
use crate::news::LogMessage;

/// A store's skills for clients.
#[derive(Debug)]
pub struct SkillPublication {
    store: Arc<Store>,
    publisher: SkillPublisher,
}

/// The skills that a client may see, sorted by id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillSummaries {
    /// Changes whenever the list may have changed.
    pub generation: u64,
    /// The skills.
    pub skills: Vec<SkillSummary>,
}

/// The facts of a skill that need no reading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillSummary {
    /// Its id.
    pub id: String,
    /// The URI of its directory, without a slash at the end.
    pub root: String,
    /// The URI of its SKILL.md.
    pub uri: String,
    /// The frontmatter's name; the id where it has none.
    pub name: String,
    /// The description.
    pub description: String,
    /// The label of the root it was found in.
    pub source: String,
    /// `true` if the operator trusts that root.
    pub trusted: bool,
    /// `true` if models are offered the skill.
    pub model_invocable: bool,
    /// `true` if users get a prompt for it.
    pub user_invocable: bool,
}

/// The details of skills, and the problems of those that cannot be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SkillDetailsBatch {
    /// In the order of the ids.
    pub details: Vec<SkillDetails>,
    /// The reasons for omitted skills, for the log.
    pub notes: Vec<LogMessage>,
}

/// The frontmatter and the files of a skill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SkillDetails {
    /// The skill's id.
    pub id: String,
    /// The frontmatter with every key, values as the author wrote them.
    pub frontmatter: Map<String, Value>,
    /// Its files; `None` if they are too many or too large to be listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<FileDetails>>,
    /// The arguments of its prompt.
    pub arguments: Vec<PromptArgument>,
    /// The reason why it has no entry in `skills/list`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unlisted: Option<String>,
}

/// A file of a skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileDetails {
    /// Its URI.
    pub uri: String,
    /// Its path below the skill's directory.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// The SHA-256 of its bytes, hexadecimal.
    pub sha256: String,
}

/// The complete content of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileBody {
    /// The MIME type.
    pub mime_type: &'static str,
    /// Its bytes.
    pub content: FileBodyContent,
}

/// The bytes of a file in a form for JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileBodyContent {
    /// Exactly the bytes, which are UTF-8.
    Text(String),
    /// Other bytes, in base64 with padding.
    Base64(String),
}

impl SkillPublication {
    /// Publishes the skills of a store.
    #[must_use]
    pub fn new(store: Arc<Store>) -> Self {
        Self { store, publisher: SkillPublisher::new() }
    }

    /// Lists the skills that an audience may see, without reading any file. A skill that models are
    /// not offered is included if users may invoke it.
    #[must_use]
    pub fn list(&self, audience: Audience<'_>) -> SkillSummaries {
        let snapshot = self.store.snapshot();
        let skills = published(&snapshot, audience);
        let skills = skills.map(|skill| summary(&snapshot, audience, skill)).collect();
        SkillSummaries { generation: snapshot.generation(), skills }
    }

    /// Returns frontmatter and files of skills; an id that the audience does not see is left out.
    #[must_use]
    pub fn details(&self, audience: Audience<'_>, ids: &[impl AsRef<str>]) -> SkillDetailsBatch {
        let snapshot = self.store.snapshot();
        let skills = seen_among(&snapshot, audience, ids);
        let made = self.publisher.entries(&self.store, &snapshot, skills);
        let note = |(id, error): &(String, RegistryError)| {
            LogMessage::warning(&format!("{id} is not published: {}", error.message))
        };
        SkillDetailsBatch {
            details: made.entries.iter().map(|entry| details(entry)).collect(),
            notes: made.left_out.iter().map(note).collect(),
        }
    }

    /// Returns a number that changes whenever [`SkillPublication::details`] of these skills may answer
    /// otherwise. Opens no file of a skill that did not change since the last time.
    #[must_use]
    pub fn stamp(&self, audience: Audience<'_>, ids: &[impl AsRef<str>]) -> u64 {
        let snapshot = self.store.snapshot();
        self.publisher.stamp(&self.store, &snapshot, seen_among(&snapshot, audience, ids))
    }

    /// Reads the complete file that a URI names.
    ///
    /// # Errors
    /// Those of [`locate_uri`] and [`read_published`].
    pub fn read(
        &self,
        audience: Audience<'_>,
        uri: &str,
    ) -> Result<(FileBody, SkillAccess), RegistryError> {
        let snapshot = self.store.snapshot();
        let place = locate_uri(&snapshot, audience, uri)?;
        let skill_id = place.skill.id().to_string();
        let file = read_published(&self.store, &snapshot, audience, &skill_id, &place.path)?;
        // A client may use a file of an unknown kind in any way; it counts as a reading.
        let path = (file.uri != skill_uris(&place.skill).1).then_some(file.path);
        let (content, tokens) = match file.content {
            FileContent::Text(text) => {
                let tokens = TokenCount::estimate(&text);
                (FileBodyContent::Text(text), tokens)
            }
            bytes @ FileContent::Bytes(_) => {
                // Binary data does not enter a model's context as text, so it has no tokens.
                (FileBodyContent::Base64(bytes.base64()), TokenCount::default())
            }
        };
        let read = SkillAccess { skill_id, path, digest: place.skill.digest(), tokens };
        Ok((FileBody { mime_type: file.mime_type, content }, read))
    }

    /// Lists the directory that a URI names.
    ///
    /// # Errors
    /// Those of [`locate_uri`] and [`published_directory`].
    pub fn directory(
        &self,
        audience: Audience<'_>,
        uri: &str,
    ) -> Result<Vec<DirectoryChild>, RegistryError> {
        let snapshot = self.store.snapshot();
        let place = locate_uri(&snapshot, audience, uri)?;
        published_directory(&snapshot, audience, place.skill.id().as_str(), &place.path)
    }

    /// Renders the prompt of a skill that a user invokes, with the scope of the audience.
    ///
    /// # Errors
    /// Those of [`skill_prompt`].
    pub fn prompt(
        &self,
        audience: Audience<'_>,
        skill_id: &str,
        given: &BTreeMap<String, String>,
    ) -> Result<(SkillPrompt, SkillAccess), RegistryError> {
        let prompt = skill_prompt(&self.store, &self.store.snapshot(), audience, skill_id, given)?;
        let read = SkillAccess {
            skill_id: skill_id.to_owned(),
            path: None,
            digest: Some(prompt.digest),
            tokens: TokenCount::estimate(&prompt.text),
        };
        Ok((prompt, read))
    }
}

/// Returns the skills that clients of an audience see, sorted by id.
fn published<'s>(
    snapshot: &'s Snapshot,
    audience: Audience<'s>,
) -> impl Iterator<Item = &'s Arc<Skill>> {
    snapshot.skills().iter().filter(move |skill| is_visible(snapshot, audience, skill))
}

/// Returns the skills of ids that clients of an audience see, in the order of the ids.
fn seen_among<'s>(
    snapshot: &'s Snapshot,
    audience: Audience<'s>,
    ids: &'s [impl AsRef<str>],
) -> impl Iterator<Item = &'s Arc<Skill>> {
    let found = ids.iter().filter_map(|id| snapshot.find_primary(id.as_ref()));
    found.filter(move |skill| is_visible(snapshot, audience, skill))
}

/// Returns whether a model of this audience may read a skill or its user may invoke it.
pub(super) fn is_visible(snapshot: &Snapshot, audience: Audience<'_>, skill: &Skill) -> bool {
    let in_scope =
        audience.scope().is_none_or(|scope| snapshot.view(scope).contains(snapshot, skill));
    in_scope
        && snapshot.state(skill) != SkillState::Off
        // A client shows prompts to its user, too, so one of the two is enough.
        && (skill.is_user_invocable() || snapshot.is_readable(audience, skill))
}

fn summary(snapshot: &Snapshot, audience: Audience<'_>, skill: &Skill) -> SkillSummary {
    let (root, uri) = skill_uris(skill);
    SkillSummary {
        id: skill.id().to_string(),
        root,
        uri,
        name: skill.name().to_owned(),
        description: skill.description().to_owned(),
        source: skill.source().to_owned(),
        trusted: skill.trust() == TrustLevel::Operator,
        model_invocable: snapshot.is_readable(audience, skill),
        user_invocable: skill.is_user_invocable(),
    }
}

fn details(entry: &SkillEntry) -> SkillDetails {
    let files = match &entry.resources {
        FileManifest::Dynamic => None,
        FileManifest::Files(files) => {
            let files = files.iter().map(|file| FileDetails {
                uri: file.uri.clone(),
                path: file.path.clone(),
                size: file.size,
                sha256: file.digest.to_string(),
            });
            Some(files.collect())
        }
    };
    SkillDetails {
        id: entry.id.clone(),
        frontmatter: entry.frontmatter.clone(),
        files,
        arguments: entry.arguments.clone(),
        unlisted: entry.unlisted.clone(),
    }
}
