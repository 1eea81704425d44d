//! The paths that the operator allows, with the place of each statement.

use std::path::PathBuf;

use crate::policy::SandboxPolicy;
use crate::policy_use::PolicyUse;

/// A path that the operator allows in the settings or in the policy file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedEntry {
    /// The key below `sandbox` in the settings, such as `scripts` or `skills.pdf`; `None` for the
    /// policy file.
    pub section: Option<String>,
    /// The list, such as `allowRead`.
    pub key: &'static str,
    /// The text of the entry.
    pub text: String,
    /// The path that it names.
    pub path: PathBuf,
}

/// The reason why an allowed path cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    /// Nothing is there.
    #[error("does not exist")]
    Missing,
    /// A part of it is a link.
    #[error("leads through a symbolic link")]
    Linked,
}

/// An allowed path of the operator that no run can use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}: `{}` {problem}", file.display(), entry.full_key(), entry.text)]
pub struct UnusableEntry {
    /// The settings or the policy file.
    pub file: PathBuf,
    /// The entry.
    pub entry: AllowedEntry,
    /// The reason.
    pub problem: PathProblem,
}

impl AllowedEntry {
    /// Returns the path of the key in its file, such as `sandbox.scripts.filesystem.allowRead`.
    #[must_use]
    pub fn full_key(&self) -> String {
        let group = if self.key == "allowUnixSockets" { "network" } else { "filesystem" };
        match &self.section {
            Some(section) => format!("sandbox.{section}.{group}.{}", self.key),
            None => format!("{group}.{}", self.key),
        }
    }

    /// Tests whether a composed policy of a use has this entry.
    pub(crate) fn is_in(
        &self,
        policy: &SandboxPolicy,
        policy_use: PolicyUse,
        id: Option<&str>,
    ) -> bool {
        let list = match self.key {
            "allowRead" => &policy.filesystem.allow_read,
            "allowWrite" => &policy.filesystem.allow_write,
            _ => &policy.network.allow_unix_sockets,
        };
        let specific = policy_use.id_key().zip(id).map(|(key, id)| format!("{key}.{id}"));
        let applies = self.section.as_ref().is_none_or(|section| {
            section == policy_use.settings_key() || Some(section) == specific.as_ref()
        });
        applies && list.contains(&self.path)
    }
}

impl UnusableEntry {
    /// Returns the remedy.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self.problem {
            PathProblem::Missing => "create it or remove the entry",
            PathProblem::Linked => "name the real path in the entry",
        }
    }
}
