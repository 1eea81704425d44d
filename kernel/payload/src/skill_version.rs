//! Recorded versions of skills, for surfaces of the operator.

use serde::{Deserialize, Serialize};

/// A recorded state of a skill's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillVersionSummary {
    /// Counted from 1 in each skill.
    pub number: u64,
    /// The time of recording, in milliseconds since 1970.
    pub recorded_ms: u64,
    /// The author, for people; empty for an edit outside of the kernel.
    pub author: String,
    /// The person or agent that approved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<String>,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The digest of the files.
    pub digest: String,
    /// The number of files.
    pub files: usize,
    /// The sum of their sizes, in bytes.
    pub bytes: u64,
    /// `false` if the content of some files is not stored.
    pub complete: bool,
}

/// A request for the files of a version.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SkillVersionRequest {
    /// The id of the skill.
    pub skill_id: String,
    /// The number of the version.
    pub number: u64,
}

/// A file of a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillVersionFile {
    /// The path relative to the skill's directory.
    pub path: String,
    /// Whether it is executable.
    pub executable: bool,
    /// The size in bytes.
    pub size: u64,
    /// The digest of the content.
    pub digest: String,
    /// The content; `None` if it is no text, or too long to be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}
