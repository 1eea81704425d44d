//! The policy of one run.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::domain::DomainPattern;
use crate::isolation::IsolationRequirement;
use crate::limits::ResourceLimits;

/// The files that a run may use. Paths are absolute.
///
/// The deepest statement about a path decides: a denied path inside of an allowed directory is hidden,
/// an allowed one inside of a denied directory is visible. A composed policy allows such a path only if
/// the run requires it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FilesystemPolicy {
    /// The readable paths, besides the libraries of the system.
    pub allow_read: Vec<PathBuf>,
    /// The unreadable paths.
    pub deny_read: Vec<PathBuf>,
    /// The writable paths, which can also be read.
    pub allow_write: Vec<PathBuf>,
    /// The read-only paths inside of writable ones.
    pub deny_write: Vec<PathBuf>,
}

/// The network that a run may use; without allowed domains none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NetworkPolicy {
    /// The reachable hosts.
    pub allowed_domains: Vec<DomainPattern>,
    /// The hosts of these that are not reachable.
    pub denied_domains: Vec<DomainPattern>,
    /// The sockets of other programs that can be connected to.
    pub allow_unix_sockets: Vec<PathBuf>,
    /// Whether the run may listen on its own loopback interface.
    pub allow_local_binding: bool,
}

/// The permissions and limits of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxPolicy {
    /// The files.
    pub filesystem: FilesystemPolicy,
    /// The network.
    pub network: NetworkPolicy,
    /// The limits of resources.
    pub limits: ResourceLimits,
    /// The isolation that the run requires.
    #[serde(flatten)]
    pub isolation: IsolationRequirement,
    /// The run executes no program besides the one that it is started with.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deny_execution: bool,
}

impl Default for NetworkPolicy {
    fn default() -> Self {
        Self {
            allowed_domains: Vec::new(),
            denied_domains: Vec::new(),
            allow_unix_sockets: Vec::new(),
            allow_local_binding: true,
        }
    }
}

impl SandboxPolicy {
    /// Returns the default policy of scripts: a writable work directory, no network.
    #[must_use]
    pub fn with_work_directory(work: &Path) -> Self {
        let mut policy = Self::default();
        policy.filesystem.allow_write.push(work.to_owned());
        policy
    }

    /// Tests whether the policy allows a host.
    #[must_use]
    pub fn allows_host(&self, host: &str) -> bool {
        self.network.allows_host(host)
    }
}

impl NetworkPolicy {
    /// Tests whether a host name, or an address in its usual form, is allowed and not denied.
    #[must_use]
    pub fn allows_host(&self, host: &str) -> bool {
        self.allowed_domains.iter().any(|pattern| pattern.matches(host)) && !self.denies_host(host)
    }

    /// Tests whether a host name, or an address in its usual form, is denied.
    #[must_use]
    pub fn denies_host(&self, host: &str) -> bool {
        self.denied_domains.iter().any(|pattern| pattern.matches(host))
    }
}

impl FilesystemPolicy {
    /// Tests whether an allowed path is inside of a denied directory.
    #[must_use]
    pub fn is_inside_denied(&self, path: &Path) -> bool {
        let is_allowed = |list: &[PathBuf]| list.iter().any(|allowed| allowed == path);
        let mut denied = self.deny_read.iter();
        (is_allowed(&self.allow_read) || is_allowed(&self.allow_write))
            && denied.any(|outer| path != outer && path.starts_with(outer))
    }

    /// Returns a denied path inside of an allowed one, if there is any.
    #[must_use]
    pub fn denied_inside(&self) -> Option<&Path> {
        let allowed: Vec<_> = self.allow_read.iter().chain(&self.allow_write).collect();
        let mut denied = self.deny_read.iter().chain(&self.deny_write);
        denied.find(|path| allowed.iter().any(|whole| path.starts_with(whole))).map(AsRef::as_ref)
    }
}
