//! The skill as the reference reads it.

use super::yaml::StrictYamlMap;

/// A SKILL.md as the reference reads it.
#[derive(Clone, Debug)]
pub struct ReferenceSkill {
    pub(super) fields: StrictYamlMap,
}
