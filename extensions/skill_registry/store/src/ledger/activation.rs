//! What is used.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use skill_format::Digest;

use crate::ledger::proposal::AgentAuthor;
use crate::tools::SkillAccess;

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActivationKind {
    /// The instructions.
    Skill,
    /// A resource.
    Resource,
}

/// One reading of a skill or of its resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillActivation {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// The skill.
    pub skill_id: String,
    /// What was read.
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
    /// Where the call came from.
    pub origin: String,
    /// What it cost the model.
    pub tokens: u32,
}

impl SkillActivation {
    /// Takes down what somebody is handed out of a skill.
    #[must_use]
    pub fn new(at: SystemTime, author: AgentAuthor, read: SkillAccess) -> Self {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let AgentAuthor { agent_id, session_id, turn_id, origin } = author;
        let SkillAccess { skill_id, path, digest, tokens } = read;
        let whole = path.is_none();
        Self {
            at_ms: i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            skill_id,
            kind: if whole { ActivationKind::Skill } else { ActivationKind::Resource },
            path,
            digest,
            agent_id,
            session_id,
            turn_id,
            origin,
            tokens: tokens.get(),
        }
    }
}

/// How much a skill is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillStats {
    /// The skill.
    pub skill_id: String,
    /// How often its instructions were read.
    pub reads: u64,
    /// How often a resource was read.
    pub resource_reads: u64,
    /// By how many agents.
    pub agents: u64,
    /// In how many sessions.
    pub sessions: u64,
    /// What that cost in tokens.
    pub tokens: u64,
    /// When it was last read, in milliseconds since 1970.
    pub last_ms: i64,
}
