//! The active skills of a thread, and changes of them.

use serde::{Deserialize, Serialize};

/// A skill in the version of one digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillRef {
    /// The id of the skill.
    pub skill_id: String,
    /// The SHA-256 of the SKILL.md, hexadecimal.
    pub digest: String,
    /// The SHA-256 of all of its files, hexadecimal, if the provider computed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
}

/// A change of the active skills of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActiveSkillsChange {
    /// These skills replace all active ones.
    Replace(Vec<SkillRef>),
    /// These skills come after the active ones. One that is active keeps its place and takes the
    /// new digests.
    Add(Vec<SkillRef>),
    /// The skills with these ids are no longer active.
    Remove(Vec<String>),
}

impl ActiveSkillsChange {
    /// Applies the change to a list of active skills, the most recent of which is the last.
    pub fn apply(&self, active: &mut Vec<SkillRef>) {
        let added = match self {
            Self::Replace(skills) => {
                active.clear();
                skills
            }
            Self::Add(skills) => skills,
            Self::Remove(ids) => return active.retain(|skill| !ids.contains(&skill.skill_id)),
        };
        for skill in added {
            match active.iter_mut().find(|known| known.skill_id == skill.skill_id) {
                Some(known) => known.clone_from(skill),
                None => active.push(skill.clone()),
            }
        }
    }
}
