//! The declarations of a skill that limit its scripts.

use serde::{Deserialize, Serialize};

/// The statements of a skill's security manifest about its own code. `None` states nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillSecurity {
    /// It needs the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires_network: Option<bool>,
    /// It changes files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modifies_files: Option<bool>,
    /// It executes programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executes_commands: Option<bool>,
    /// The files that it uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_scope: Option<SkillFileScope>,
}

/// The files that the code of a skill uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkillFileScope {
    /// Its own.
    SkillDirectory,
    /// Its own and those of the work directory.
    Workspace,
    /// Any file.
    System,
    /// A word that this build does not know: the narrowest scope applies.
    #[serde(other)]
    Unknown,
}
