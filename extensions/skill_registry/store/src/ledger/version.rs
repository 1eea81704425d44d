//! What a version of a skill is: a tree of files with their digests.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skill_format::Digest;

use crate::ledger::proposal::AgentAuthor;

/// Tells who made a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum VersionAuthor {
    /// Somebody who edited the files directly.
    External,
    /// An agent, by a proposal or by creating the skill.
    Agent(AgentAuthor),
    /// A person, by rolling back.
    Person {
        /// The user's name.
        name: String,
    },
}

/// One state of a skill's files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillVersion {
    /// Counted from 1 in each skill.
    pub number: u64,
    /// Unique on all machines; sorts by time.
    pub id: String,
    /// When it was recorded, in milliseconds since 1970.
    pub created_ms: i64,
    /// Who made it.
    pub author: VersionAuthor,
    /// The person who approved it.
    pub approved_by: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// The proposal it came from.
    pub proposal: Option<String>,
    /// The digest of the tree.
    pub tree: Digest,
    /// How many files it has.
    pub files: usize,
    /// Their sizes added up, in bytes.
    pub bytes: u64,
    /// Whether every file is kept; beyond 512 files or 16 MiB some are not.
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

/// One file of a version.
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

/// Says whose a skill is and whether a person answers for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApprovalStatus {
    /// The agent that created it.
    pub author: AgentAuthor,
    /// Whether a person approved the tree as it is now.
    pub approved: bool,
    /// The digest of the tree now.
    pub digest: Digest,
}

/// One line of the audit log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AuditEntry {
    /// Its number, counted from 1 and never given twice.
    pub seq: u64,
    /// Unique on all machines; sorts by time.
    pub id: String,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// What happened, such as `proposal.approved`.
    pub action: String,
    /// Who did it; empty where the disk did.
    pub by: String,
    /// How: `agent`, `cli`, `review`, `disk` or `recovery`.
    pub via: String,
    /// The skill.
    pub skill_id: Option<String>,
    /// The proposal.
    pub proposal: Option<String>,
    /// The version.
    pub version: Option<u64>,
    /// The rest.
    pub detail: Value,
}

/// Chooses lines of the audit log; the newest come last.
#[derive(Clone, Copy, Debug, Default)]
pub struct AuditFilter<'a> {
    /// Only those of a skill.
    pub skill: Option<&'a str>,
    /// Only those of a proposal.
    pub proposal: Option<&'a str>,
    /// Only those after this number.
    pub since: Option<u64>,
    /// At most so many, the newest.
    pub limit: Option<usize>,
}
