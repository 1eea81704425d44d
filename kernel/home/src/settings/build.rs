//! The settings of extension builds.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Builds of extensions in `sandbox/extensions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BuildSettings {
    /// Crates of crates.io that an extension may depend on, in addition to skillhost-sdk. Their
    /// build scripts and macros run during the build.
    pub allow: Vec<String>,
    /// The directory with the sources of skillhost-sdk, relative to the home; by default the
    /// sources that belong to the executable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sdk: Option<PathBuf>,
    /// Time limit of one build, in milliseconds.
    pub time_limit_ms: u64,
    /// Memory limit of all processes of a build together, in mebibytes.
    pub memory_limit_mib: u64,
}

impl Default for BuildSettings {
    fn default() -> Self {
        Self { allow: Vec::new(), sdk: None, time_limit_ms: 600_000, memory_limit_mib: 4096 }
    }
}

impl BuildSettings {
    /// Returns the time limit of one build.
    #[must_use]
    pub fn time_limit(&self) -> Duration {
        Duration::from_millis(self.time_limit_ms)
    }

    /// Returns the memory limit of a build, in bytes.
    #[must_use]
    pub fn memory_limit(&self) -> u64 {
        self.memory_limit_mib.saturating_mul(1024 * 1024)
    }
}
