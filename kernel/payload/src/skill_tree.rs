//! The files of a skill as the kernel runs them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::context::CallContext;
use crate::skill_security::SkillSecurity;

/// A request for the files of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillTreeRequest {
    /// The caller: agents are limited to their catalog.
    pub context: CallContext,
    /// The id of the skill; absent for the one that was loaded last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill_id: Option<String>,
}

/// The files of a skill as they are now, without their contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillTree {
    /// The id of the skill.
    pub skill_id: String,
    /// The frontmatter's `name`.
    pub name: String,
    /// The frontmatter's `description`.
    pub description: String,
    /// The label of its root.
    pub source: String,
    /// The absolute path of its directory.
    pub root: PathBuf,
    /// An operator owns the root, and approved the skill if an agent created it.
    #[serde(default)]
    pub is_operator_root: bool,
    /// `sha256:` and the digest of the tree, which covers path, mode and content of every file.
    pub digest: String,
    /// The files, by path.
    pub files: Vec<SkillTreeFile>,
    /// The tools in its `allowed-tools`; absent without the field, empty if it cannot be parsed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// The frontmatter's `sandbox`, not validated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Value>,
    /// The limits that the skill declares for its own code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security: Option<SkillSecurity>,
}

/// One file of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillTreeFile {
    /// The path within the skill.
    pub path: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The SHA-256 of its content, hexadecimal.
    pub sha256: String,
    /// The file is executable.
    #[serde(default)]
    pub executable: bool,
}
