//! Skills that a provider publishes to clients outside of the kernel.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::context::CallContext;

/// A request for the skills in the scope of the context.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PublishedRequest {
    /// The context of the client.
    pub context: CallContext,
}

/// The published skills, sorted by id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedSkills {
    /// Changes whenever the list may have changed.
    pub generation: u64,
    /// The skills.
    pub skills: Vec<PublishedSkill>,
}

/// A published skill with the metadata that is known without reading its files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedSkill {
    /// The id of the skill.
    pub id: String,
    /// The URI of its directory, without a slash at the end; the prefix of the URIs of its files.
    pub root: String,
    /// The URI of its SKILL.md.
    pub uri: String,
    /// The name in its frontmatter; the id if the frontmatter has none.
    pub name: String,
    /// The purpose of the skill.
    pub description: String,
    /// The origin, for people.
    pub source: String,
    /// The operator trusts its root.
    pub trusted: bool,
    /// A model may load it by itself.
    pub model_invocable: bool,
    /// A person may invoke it by name.
    pub user_invocable: bool,
}

/// An argument of a skill that a person invokes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedArgument {
    /// The name of the argument.
    pub name: String,
    /// A description of the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The argument is required.
    #[serde(default)]
    pub required: bool,
}

/// A request for the details of skills by their ids.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PublishedDetailsRequest {
    /// The context of the client.
    pub context: CallContext,
    /// The skills.
    pub skill_ids: Vec<String>,
}

/// The frontmatter and files of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedDetails {
    /// The skill.
    pub id: String,
    /// Every field of the frontmatter; text values remain text.
    pub frontmatter: Map<String, Value>,
    /// Every file; absent if they are too many or too large to be listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<PublishedFile>>,
    /// The arguments of its prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<PublishedArgument>,
    /// The reason that it can only be read file by file: its name cannot be the end of a URI.
    // Part of the details, so that a client learns the reason without a failed request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlisted: Option<String>,
}

/// A file of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedFile {
    /// The URI of the file.
    pub uri: String,
    /// The path below the skill's directory, with `/` between the parts.
    pub path: String,
    /// The size in bytes.
    pub size: u64,
    /// The SHA-256 of the raw bytes, hexadecimal.
    pub sha256: String,
}

/// A request for a file or a directory of a skill.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PublishedUriRequest {
    /// The context of the client.
    pub context: CallContext,
    /// The URI of the file or directory.
    // Comes from an untrusted client; the provider resolves it within the skill's directory only.
    pub uri: String,
}

/// The complete content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedBody {
    /// The media type.
    pub mime_type: String,
    /// The bytes.
    pub content: PublishedContent,
}

/// Bytes in a form that JSON can represent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PublishedContent {
    /// Bytes that are valid UTF-8.
    Text(String),
    /// All other bytes, in base64 with padding.
    Base64(String),
}

/// An entry of a directory of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedEntry {
    /// The URI of the entry.
    pub uri: String,
    /// The name in the directory.
    pub name: String,
    /// The entry is a directory.
    pub directory: bool,
    /// The size in bytes; absent for a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The media type, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// A request for the prompt of a skill that a person invokes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PublishedPromptRequest {
    /// The context of the client.
    pub context: CallContext,
    /// The skill.
    pub skill_id: String,
    /// The values that the person entered, by argument name.
    pub arguments: BTreeMap<String, String>,
}

/// The prompt of a skill that a person invoked, ready for the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedPrompt {
    /// The text of the prompt.
    pub text: String,
}
