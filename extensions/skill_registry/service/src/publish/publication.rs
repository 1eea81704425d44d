//! The skills of a store for clients outside of a kernel; a server passes these values on unchanged.

use std::collections::BTreeMap;
use std::sync::Arc;

use skill_catalog::{Audience, RegistryError, Skill, SkillState, Snapshot, Store, TrustLevel};
use skill_format::TokenCount;
use skill_ledger::SkillAccess;
use skillhost_payload::{
    PublishedBody, PublishedContent, PublishedDetails, PublishedEntry, PublishedPrompt,
    PublishedSkill, PublishedSkills,
};

use super::SkillPublisher;
use super::file::{published_body, published_directory, read_published};
use super::listed::SKILL_MD;
use super::prompt::skill_prompt;
use super::uri::{UriTarget, locate_uri, skill_uris};
use crate::log_messages::LogMessage;

/// A store's skills for clients.
#[derive(Debug)]
pub struct SkillPublication {
    store: Arc<Store>,
    publisher: SkillPublisher,
}

/// The details of skills, and the problems of those that cannot be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SkillDetailsBatch {
    /// In the order of the ids.
    pub details: Vec<PublishedDetails>,
    /// The reasons for omitted skills, for the log.
    pub notes: Vec<LogMessage>,
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
    pub fn list(&self, audience: Audience<'_>) -> PublishedSkills {
        let snapshot = self.store.snapshot();
        let skills = published(&snapshot, audience);
        let skills = skills.map(|skill| summary(&snapshot, audience, skill)).collect();
        PublishedSkills { generation: snapshot.generation(), skills }
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
            details: made.entries.iter().map(|entry| entry.to_details()).collect(),
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
    ) -> Result<(PublishedBody, SkillAccess), RegistryError> {
        let snapshot = self.store.snapshot();
        let UriTarget { skill, path } = locate_uri(&snapshot, audience, uri)?;
        let skill_id = skill.id().to_string();
        let bytes = read_published(&self.store, &snapshot, audience, &skill_id, &path)?;
        let body = published_body(&path, bytes);
        let tokens = match &body.content {
            PublishedContent::Text(text) => TokenCount::estimate(text),
            // Binary data does not enter a model's context as text, so it has no tokens.
            PublishedContent::Base64(_) => TokenCount::default(),
        };
        // A client may use a file of an unknown kind in any way; it counts as a reading.
        let path = (path != SKILL_MD).then_some(path);
        Ok((body, SkillAccess { skill_id, path, digest: skill.digest(), tokens }))
    }

    /// Lists the directory that a URI names.
    ///
    /// # Errors
    /// Those of [`locate_uri`] and [`published_directory`].
    pub fn directory(
        &self,
        audience: Audience<'_>,
        uri: &str,
    ) -> Result<Vec<PublishedEntry>, RegistryError> {
        let snapshot = self.store.snapshot();
        let place = locate_uri(&snapshot, audience, uri)?;
        published_directory(&snapshot, audience, place.skill.id().as_str(), &place.path)
    }

    /// Renders the prompt of a skill that a user invokes, with the scope of the audience.
    ///
    /// # Errors
    /// [`NotFound`](skillhost_payload::ErrorKind::NotFound) for a skill that is unknown, off or out of
    /// scope, [`Denied`](skillhost_payload::ErrorKind::Denied) for one that persons do not invoke,
    /// [`Io`](skillhost_payload::ErrorKind::Io) if its text cannot be read and no good one is held.
    pub fn prompt(
        &self,
        audience: Audience<'_>,
        skill_id: &str,
        given: &BTreeMap<String, String>,
    ) -> Result<(PublishedPrompt, SkillAccess), RegistryError> {
        let snapshot = self.store.snapshot();
        let (prompt, digest) = skill_prompt(&self.store, &snapshot, audience, skill_id, given)?;
        let read = SkillAccess {
            skill_id: skill_id.to_owned(),
            path: None,
            digest: Some(digest),
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

fn summary(snapshot: &Snapshot, audience: Audience<'_>, skill: &Skill) -> PublishedSkill {
    let (root, uri) = skill_uris(skill);
    PublishedSkill {
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
