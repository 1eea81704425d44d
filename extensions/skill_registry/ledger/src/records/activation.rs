//! Records of the use of skills.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use skill_catalog::AgentAuthor;
use skill_format::{Digest, TokenCount};

/// A read of a skill by a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillAccess {
    /// The skill, under the id of the request.
    pub skill_id: String,
    /// The path of the file, if it is not the instructions.
    pub path: Option<String>,
    /// The digest of SKILL.md, if it is known.
    pub digest: Option<Digest>,
    /// The number of tokens for a model.
    pub tokens: TokenCount,
}

/// The part of a skill that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActivationKind {
    /// The instructions.
    Skill,
    /// A resource.
    Resource,
}

/// One read of a skill or of one of its resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillActivation {
    /// The time, in milliseconds since 1970.
    pub at_ms: i64,
    /// The skill.
    pub skill_id: String,
    /// The part that was read.
    pub kind: ActivationKind,
    /// The resource's path.
    pub path: Option<String>,
    /// The digest of SKILL.md.
    pub digest: Option<Digest>,
    /// The agent.
    pub agent_id: String,
    /// Its session.
    pub session_id: String,
    /// The turn.
    pub turn_id: String,
    /// The origin of the call.
    pub origin: String,
    /// The number of tokens that the model received.
    pub tokens: u32,
    /// The number of the tool call within its run; `None` outside of runs. Not stored.
    pub call_number: Option<u64>,
}

impl SkillActivation {
    /// Creates the record of one read.
    #[must_use]
    pub fn new(at: SystemTime, author: AgentAuthor, read: SkillAccess) -> Self {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let AgentAuthor { agent_id, session_id, turn_id, origin } = author;
        let SkillAccess { skill_id, path, digest, tokens } = read;
        let is_skill = path.is_none();
        Self {
            at_ms: i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            skill_id,
            kind: if is_skill { ActivationKind::Skill } else { ActivationKind::Resource },
            path,
            digest,
            agent_id,
            session_id,
            turn_id,
            origin,
            tokens: tokens.get(),
            call_number: None,
        }
    }
}

/// The reads of a skill, summed up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SkillStats {
    /// The skill.
    pub skill_id: String,
    /// The number of reads of its instructions.
    pub reads: u64,
    /// The number of reads of its resources.
    pub resource_reads: u64,
    /// The number of agents that read it.
    pub agents: u64,
    /// The number of sessions in which it was read.
    pub sessions: u64,
    /// The number of tokens of all reads.
    pub tokens: u64,
    /// The time of the last read, in milliseconds since 1970.
    pub last_ms: i64,
}
