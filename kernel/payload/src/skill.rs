//! Skills in prompts and runs.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::context::CallContext;

/// The interface of skill providers, called through the generic call.
pub mod skill_interface {
    /// Name of the interface.
    pub const NAME: &str = "skill";
    /// [`crate::SkillRequest`] → [`crate::SkillContent`].
    pub const GET_SKILL_CONTENT: &str = "get_skill_content";
    /// No payload → [`crate::SkillGeneration`].
    pub const GENERATION: &str = "generation";
    /// [`crate::ActivateSkillRequest`] → [`crate::ActiveSkill`].
    pub const ACTIVATE: &str = "activate";
    /// [`crate::SkillCreatedReport`] → `null`.
    pub const SKILL_CREATED: &str = "skill_created";
    /// [`crate::PublishedRequest`] → [`crate::PublishedSkills`].
    pub const LIST_PUBLISHED: &str = "list_published";
    /// [`crate::PublishedDetailsRequest`] → a list of [`crate::PublishedDetails`].
    pub const PUBLISHED_DETAILS: &str = "published_details";
    /// [`crate::PublishedDetailsRequest`] → a number that changes with those details, or `null`.
    pub const PUBLISHED_STAMP: &str = "published_stamp";
    /// [`crate::PublishedUriRequest`] → [`crate::PublishedBody`].
    pub const READ_PUBLISHED: &str = "read_published";
    /// [`crate::PublishedUriRequest`] → a list of [`crate::PublishedEntry`].
    pub const READ_PUBLISHED_DIRECTORY: &str = "read_published_directory";
    /// [`crate::PublishedPromptRequest`] → [`crate::PublishedPrompt`].
    pub const PUBLISHED_PROMPT: &str = "published_prompt";
    /// [`crate::ReviewRequest`] → [`crate::ReviewOffer`], or `null`.
    pub const OFFER_REVIEW: &str = "offer_review";
    /// [`crate::ReviewDecision`] → a text that describes the outcome to the model.
    pub const DECIDE: &str = "decide";
}

/// A skill in the version of one digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillRef {
    /// The id of the skill.
    pub skill_id: String,
    /// The SHA-256 of the SKILL.md, hexadecimal.
    pub digest: String,
}

/// A request for the content of a skill.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SkillRequest<'a> {
    /// The id of the skill.
    #[serde(borrow)]
    pub skill_id: Cow<'a, str>,
}

/// A report that an agent created a skill, sent by tools that write files for agents.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SkillCreatedReport {
    /// The context of the call that created the skill, unchanged.
    pub context: CallContext,
    /// The id of the skill.
    pub skill_id: String,
}

/// The instructions of a skill as they are bound into an agent's prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillContent {
    /// The id of the skill.
    pub skill_id: String,
    /// The text for the prompt, in its `<skill_content>` element.
    pub text: String,
    /// The SHA-256 of the SKILL.md, hexadecimal.
    pub digest: String,
    /// The estimated tokens of `text`.
    pub tokens: u32,
    /// The origin, for people.
    pub source: String,
}

/// A request to activate a skill for an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivateSkillRequest {
    /// The caller: agents are limited to their catalog, operators to user-invocable skills.
    pub context: CallContext,
    /// The id of the skill.
    pub skill_id: String,
}

/// The instructions of an active skill and its statement about tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveSkill {
    /// The current content of the skill.
    pub content: SkillContent,
    /// The tools in its `allowed-tools`; absent without the field, empty if it cannot be parsed.
    // An unreadable field must not be taken for "no restriction".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// The tools above require no further approval: an operator owns the skill's root and approved
    /// this digest.
    #[serde(default)]
    pub grants: bool,
}

/// A number that changes whenever any skill's content may have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillGeneration {
    /// The generation.
    pub generation: u64,
}
