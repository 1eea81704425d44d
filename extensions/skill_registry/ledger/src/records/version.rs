//! Versions of a skill: trees of files with their digests.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skill_catalog::AgentAuthor;
use skill_format::Digest;

/// The author of a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum VersionAuthor {
    /// Another program or a person that edited the files directly.
    External,
    /// An agent, by a proposal or by creating the skill.
    Agent(AgentAuthor),
    /// A person, by rolling back.
    Person {
        /// The user's name.
        name: String,
    },
}

/// A recorded state of a skill's files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillVersion {
    /// Counted from 1 in each skill.
    pub number: u64,
    /// Unique on all machines; sorts by time.
    pub id: String,
    /// The time of recording, in milliseconds since 1970.
    pub created_ms: i64,
    /// The author.
    pub author: VersionAuthor,
    /// The person who approved it.
    pub approved_by: Option<String>,
    /// The reason.
    pub reason: Option<String>,
    /// The proposal from which it resulted.
    pub proposal: Option<String>,
    /// The digest of the tree.
    pub tree: Digest,
    /// The number of files.
    pub files: usize,
    /// The sum of their sizes, in bytes.
    pub bytes: u64,
    /// `true` if every file is stored; beyond 512 files or 16 MiB some are not.
    pub complete: bool,
}

/// A version with its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VersionTree {
    /// The version.
    pub version: SkillVersion,
    /// The files, sorted by path.
    pub files: Vec<VersionFile>,
}

/// A file of a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VersionFile {
    /// The path relative to the skill's directory.
    pub path: String,
    /// The executable bits.
    pub mode: u32,
    /// The size in bytes.
    pub size: u64,
    /// The digest of the content.
    pub digest: Digest,
    /// The content.
    #[serde(skip)]
    pub content: Arc<[u8]>,
}

impl VersionFile {
    /// Returns the content as text, if it is UTF-8 without NUL.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.content).ok().filter(|text| !text.contains('\0'))
    }
}

/// The author of a skill that an agent created, and its approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApprovalStatus {
    /// The agent that created it.
    pub author: AgentAuthor,
    /// `true` if a person approved the current tree.
    pub approved: bool,
    /// The digest of the current tree.
    pub digest: Digest,
}

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AuditEntry {
    /// The number, counted from 1 and never used twice.
    pub seq: u64,
    /// Unique on all machines; sorts by time.
    pub id: String,
    /// The time, in milliseconds since 1970.
    pub at_ms: i64,
    /// The action, such as `proposal.approved`.
    pub action: String,
    /// The agent or user; empty if the change was detected on the disk.
    pub by: String,
    /// The way: `agent`, `cli`, `review`, `disk` or `recovery`.
    pub via: String,
    /// The skill.
    pub skill_id: Option<String>,
    /// The proposal.
    pub proposal: Option<String>,
    /// The version.
    pub version: Option<u64>,
    /// Further data, depending on the action.
    pub detail: Value,
}

/// A filter for the audit log; the newest entries come last.
#[derive(Clone, Copy, Debug, Default)]
pub struct AuditFilter<'a> {
    /// Only those of this skill.
    pub skill: Option<&'a str>,
    /// Only those of this proposal.
    pub proposal: Option<&'a str>,
    /// Only those after this number.
    pub after: Option<u64>,
    /// Only those at or after this time, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// The maximum number, the newest ones.
    pub limit: Option<usize>,
}
