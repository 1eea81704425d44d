//! Skills in prompts and runs.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// [`crate::SkillTreeRequest`] → [`crate::SkillTree`].
    pub const GET_TREE: &str = "get_tree";
    /// [`crate::SkillReport`] → `null`.
    pub const SKILL_CREATED: &str = "skill_created";
    /// [`crate::SkillReport`] → `null`. Sent after a script of a skill ran for an agent.
    pub const SCRIPT_RAN: &str = "script_ran";
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
    /// [`crate::ReviewListRequest`] → a list of [`crate::ReviewQuestion`].
    pub const LIST_REVIEWS: &str = "list_reviews";
    /// [`crate::SkillRequest`] → a list of [`crate::SkillVersionSummary`].
    pub const LIST_VERSIONS: &str = "list_versions";
    /// [`crate::SkillVersionRequest`] → a list of [`crate::SkillVersionFile`].
    pub const READ_VERSION: &str = "read_version";
    /// [`crate::SkillProgramsRequest`] → a list of [`crate::SkillProgram`].
    pub const LIST_PROGRAMS: &str = "list_programs";
    /// A list of [`crate::AgentTools`], of all agents → `null`. Sent before a turn if a tool changed.
    pub const SET_AGENT_TOOLS: &str = "set_agent_tools";
    /// [`crate::BindingRequest`] → a list of [`crate::BindingProblem`].
    pub const CHECK_BINDING: &str = "check_binding";
}

/// A request for the content of a skill.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SkillRequest<'a> {
    /// The id of the skill.
    #[serde(borrow)]
    pub skill_id: Cow<'a, str>,
}

/// A report about a skill: that a tool which writes files for agents created it, or that one of its
/// scripts ran.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SkillReport {
    /// The context of the call, unchanged.
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
    /// The capabilities that its security manifest declares; absent without a manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<String>>,
    /// The ids of the skills that come after it in a prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub precedes: Vec<String>,
    /// The ids of the skills that come before it in a prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follows: Vec<String>,
}

/// A request for the programs of skills.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillProgramsRequest {
    /// The caller: agents are limited to the skills that they see.
    pub context: CallContext,
    /// The skill, or `None` for every skill that the caller sees and that declares programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill_id: Option<String>,
}

/// A program of a skill, offered as a tool. Its discovery runs no code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SkillProgram {
    /// The name of the tool: `<skill>` for the default program, `<skill>.<key>` for the others.
    pub tool_name: String,
    /// The id of the skill.
    pub skill_id: String,
    /// The name of the program in its skill.
    pub key: String,
    /// The path of its file in the skill's directory, or `None` for a skill without a program: a
    /// call returns the skill's instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// The kind in `tool.json`.
    #[serde(default)]
    pub kind: SkillProgramKind,
    /// The description, from `tool.json` or SKILL.md. The program itself may state a better one.
    pub description: String,
    /// The JSON Schema of the arguments: an object, from `tool.json` or any object.
    pub input_schema: Value,
    /// The JSON Schema of the result, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// The digest of the skill's directory, `sha256:<hexadecimal>`.
    pub tree_digest: String,
    /// The text of SKILL.md below the frontmatter; only in the list of one skill.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instructions: String,
}

/// The kind of a skill's programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkillProgramKind {
    /// The programs of one skill.
    #[default]
    Skill,
    /// A LangChain tool per file.
    Langchain,
}

/// A number that changes whenever any skill's content may have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillGeneration {
    /// The generation.
    pub generation: u64,
}
