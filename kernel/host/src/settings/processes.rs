//! What the settings say about process extensions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What process extensions may use up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessSettings {
    /// Mebibytes of data that one process may have, where the system can limit that (Linux).
    #[schemars(range(min = 1))]
    pub memory_limit_mib: u64,
}

impl Default for ProcessSettings {
    fn default() -> Self {
        Self { memory_limit_mib: 1024 }
    }
}
