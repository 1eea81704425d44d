//! What the settings say about building extensions.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How extensions in `sandbox/extensions` are built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BuildSettings {
    /// Crates of crates.io that an extension may depend on, beside skillhost-sdk. Their build scripts
    /// and macros run while it is built.
    pub allow: Vec<String>,
    /// Where the sources of skillhost-sdk lie, relative to the home; without it those that belong to
    /// the executable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sdk: Option<PathBuf>,
    /// Milliseconds that one build may take.
    pub time_limit_ms: u64,
    /// Mebibytes of memory that each process of a build may have.
    pub memory_limit_mib: u64,
}

impl Default for BuildSettings {
    fn default() -> Self {
        Self { allow: Vec::new(), sdk: None, time_limit_ms: 600_000, memory_limit_mib: 4096 }
    }
}

impl BuildSettings {
    /// How long one build may take.
    #[must_use]
    pub fn time_limit(&self) -> Duration {
        Duration::from_millis(self.time_limit_ms)
    }

    /// How many bytes of memory each process of a build may have.
    #[must_use]
    pub fn memory_limit(&self) -> u64 {
        self.memory_limit_mib.saturating_mul(1024 * 1024)
    }
}
