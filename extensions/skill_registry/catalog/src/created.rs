//! Skills that agents created, as a snapshot knows them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use skill_format::{Digest, SkillId, sanitize_line};

/// The agent that made a call, taken from the context of the call and never from its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentAuthor {
    /// The agent.
    pub agent_id: String,
    /// The session it works in.
    pub session_id: String,
    /// The turn of that session.
    pub turn_id: String,
    /// The origin of the call, such as `agent` or `mcp`.
    pub origin: String,
}

impl AgentAuthor {
    /// Returns a phrase for the author, for use in a sentence.
    #[must_use]
    pub fn name(&self) -> String {
        match (self.agent_id.as_str(), self.origin.as_str()) {
            ("", "operator") => "the operator".to_owned(),
            ("", "mcp") => "an MCP client".to_owned(),
            ("", _) => "an unknown agent".to_owned(),
            (id, _) => format!("agent `{id}`"),
        }
    }
}

/// The skills that agents created, by id; all others are the operator's own.
pub type CreatedSkills = BTreeMap<SkillId, CreatedSkill>;

/// A skill that an agent created: until a person approves its current files, it grants nothing and
/// cannot be bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CreatedSkill {
    /// The agent.
    pub author: AgentAuthor,
    /// The digest of the approved tree.
    pub approved: Option<Digest>,
    /// The digest of the tree at the last check; `None` if the tree changed since.
    pub tree: Option<Digest>,
}

impl CreatedSkill {
    /// Returns whether a person approved the current files.
    #[must_use]
    pub fn is_approved(&self) -> bool {
        self.approved.is_some() && self.approved == self.tree
    }

    /// Returns the author, on one line.
    pub fn author_line(&self) -> String {
        match self.author.agent_id.as_str() {
            "" if self.author == AgentAuthor::default() => "an unknown author".to_owned(),
            "" => "an agent".to_owned(),
            id => format!("the agent {}", sanitize_line(id)),
        }
    }
}
