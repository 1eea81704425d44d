//! The uses of policies, and the default policy of each.

use std::path::Path;

use crate::limits::ResourceLimits;
use crate::policy::SandboxPolicy;

/// The code that a policy is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyUse {
    /// A script of a skill.
    Script,
    /// A handler program of a skill. The time limit is that of one call.
    Handler,
    /// A process extension.
    Process,
    /// A build of an extension.
    Build,
    /// A command line of an agent.
    Command,
}

impl PolicyUse {
    /// Returns the default policy: a writable work directory, no network, and the limits of the use.
    #[must_use]
    pub fn default_policy(self, work: &Path) -> SandboxPolicy {
        let mut policy = SandboxPolicy::with_work_directory(work);
        policy.limits = self.default_limits();
        policy
    }

    /// Returns the limits of a use.
    pub(crate) fn default_limits(self) -> ResourceLimits {
        let standard = ResourceLimits::default();
        match self {
            Self::Script | Self::Handler => standard,
            // It runs until it is stopped.
            Self::Process => ResourceLimits { seconds: None, output_kib: None, ..standard },
            // Compilers and the tests of large programs.
            Self::Build | Self::Command => ResourceLimits {
                seconds: Some(600),
                memory_mib: 4096,
                tasks: 1024,
                file_mib: 2048,
                disk_mib: 8192,
                files: 200_000,
                temporary_mib: 1024,
                output_kib: Some(16 * 1024),
            },
        }
    }

    /// Returns the key of the settings for this use.
    pub(crate) fn settings_key(self) -> &'static str {
        match self {
            Self::Script => "scripts",
            Self::Handler => "handlers",
            Self::Process => "processes",
            Self::Build => "builds",
            Self::Command => "commands",
        }
    }

    /// Returns the key of the settings for one skill or extension.
    pub(crate) fn id_key(self) -> Option<&'static str> {
        match self {
            Self::Script | Self::Handler => Some("skills"),
            Self::Process | Self::Build => Some("extensions"),
            Self::Command => None,
        }
    }
}
