//! What a skill provider publishes to clients outside of the kernel.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::CallContext;

/// Asks for the skills that the context's scope shows to a client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PublishedRequest {
    /// Who asks.
    pub context: CallContext,
}

/// The skills that are published, sorted by id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedSkills {
    /// Changes whenever the list may have changed.
    pub generation: u64,
    /// The skills.
    pub skills: Vec<PublishedSkill>,
}

/// One published skill, as far as it is known without reading it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedSkill {
    /// Its id.
    pub id: String,
    /// The address of its directory, without a slash at the end; those of its files begin with it.
    pub root: String,
    /// The address of its SKILL.md.
    pub uri: String,
    /// The name in its frontmatter; the id where that has none.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Where it comes from, for people.
    pub source: String,
    /// Whether the operator stands behind its root.
    pub trusted: bool,
    /// Whether a model may load it by itself.
    pub model_invocable: bool,
    /// Whether a person may invoke it by name.
    pub user_invocable: bool,
}

/// An argument of a skill that a person invokes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedArgument {
    /// Its name.
    pub name: String,
    /// What to give.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it has to be given.
    #[serde(default)]
    pub required: bool,
}

/// Asks for the details of skills by their ids.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PublishedDetailsRequest {
    /// Who asks.
    pub context: CallContext,
    /// The skills.
    pub skill_ids: Vec<String>,
}

/// A skill's frontmatter and files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedDetails {
    /// The skill.
    pub id: String,
    /// Every field its author wrote; texts stay texts.
    pub frontmatter: Map<String, Value>,
    /// Every file; absent where they are too many or too large to be listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<PublishedFile>>,
    /// The arguments of its prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<PublishedArgument>,
    /// Why it can only be read file by file: its name cannot be the end of an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlisted: Option<String>,
}

/// One file of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedFile {
    /// Its address.
    pub uri: String,
    /// Its path below the skill's directory, with `/` between the parts.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// sha256 of its raw bytes, hexadecimal.
    pub sha256: String,
}

/// Asks for a file or a directory of a skill.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PublishedUriRequest {
    /// Who asks.
    pub context: CallContext,
    /// Its address.
    pub uri: String,
}

/// The whole of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedBody {
    /// What kind of file it is.
    pub mime_type: String,
    /// Its bytes.
    pub content: PublishedContent,
}

/// Bytes as JSON can hold them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PublishedContent {
    /// Bytes that are a text in UTF-8.
    Text(String),
    /// Any others, in base64 with padding.
    Base64(String),
}

/// One entry of a directory of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedEntry {
    /// Its address.
    pub uri: String,
    /// Its name in the directory.
    pub name: String,
    /// Whether it is a directory.
    pub directory: bool,
    /// Its size in bytes; absent for a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// What kind of file it is, where that can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// Asks for the prompt that a skill becomes when a person invokes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PublishedPromptRequest {
    /// Who asks.
    pub context: CallContext,
    /// The skill.
    pub skill_id: String,
    /// What the person gave, by the arguments' names.
    pub arguments: BTreeMap<String, String>,
}

/// A skill that a person invoked, ready for the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedPrompt {
    /// The text.
    pub text: String,
}
